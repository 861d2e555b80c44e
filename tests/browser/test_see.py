"""See: captions, generated pictures, characters by hand."""

import base64

import pytest
from waiting import until

pytestmark = pytest.mark.browser


def test_words_of_a_caption_show_their_map(static, visit):
    page = visit(f"{static}#/see")
    words = page.locator(".caption-words").first.get_by_role("button")
    words.first.wait_for()
    words.nth(1).hover()
    assert words.nth(1).get_attribute("aria-pressed") == "true"
    assert page.locator(".picture .veil").count() > 10


def test_a_scene_that_is_drawn_is_described_and_kept_in_the_address(live, visit):
    page = visit(f"{live}#/see")
    page.get_by_role("button", name="Cell 1: empty").click()
    page.get_by_role("radio", name="blue").click()
    page.get_by_role("radio", name="square").click()
    page.get_by_role("button", name="Cell 3: empty").click()
    page.get_by_role("region", name="Hard attention").get_by_text("blue").wait_for()
    assert "red" in page.get_by_role("region", name="Hard attention").locator(".caption-words").inner_text()
    page.reload()
    page.get_by_role("button", name="Cell 3: blue square").wait_for()


def test_a_file_that_is_no_picture_is_refused_with_a_sentence(live, visit):
    page = visit(f"{live}#/see")
    page.set_input_files("input[type=file]", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"no"})
    assert "no PNG or JPEG" in page.get_by_role("alert").inner_text()
    dot = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    page.set_input_files("input[type=file]", {"name": "a.png", "mimeType": "image/png", "buffer": dot})
    page.get_by_text("pixels").first.wait_for()
    visit.problems.clear()  # the browser itself notes an answer of 422


def test_pixels_of_a_sample_look_elsewhere(static, visit):
    page = visit(f"{static}#/see?tab=sample")
    assert page.locator(".samples img").count() == 8
    page.get_by_role("application").focus()
    before = page.locator(".picture .spot").get_attribute("x")
    page.keyboard.press("ArrowRight")
    assert page.locator(".picture .spot").get_attribute("x") != before
    page.locator(".samples button").nth(3).click()
    until(page, "location.hash.includes('picture=3')")


def test_a_character_that_is_drawn_is_named(live, visit):
    page = visit(f"{live}#/see?tab=characters")
    page.get_by_text("It is C, says SNAIL").wait_for()
    page.get_by_role("button", name="Erase: A sixth drawing").click()
    page.get_by_text("Draw all six.").wait_for()
    box = page.locator("svg.pad").last.bounding_box()

    def stroke(*points):
        for number, (x, y) in enumerate(points):
            page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=4)
            if number == 0:
                page.mouse.down()
        page.mouse.up()

    stroke((0.18, 0.2), (0.5, 0.56), (0.82, 0.18))
    stroke((0.5, 0.56), (0.5, 0.86))
    stroke((0.25, 0.87), (0.75, 0.87))
    page.get_by_text("It is A, says SNAIL").wait_for()
    page.reload()
    page.get_by_text("It is A, says SNAIL").wait_for()


def test_a_character_is_drawn_by_keys(live, visit):
    page = visit(f"{live}#/see?tab=characters")
    pad = page.get_by_role("application", name="A sixth drawing")
    before = pad.locator("polyline").count()
    pad.focus()
    for key in ("ArrowUp", "Space", "ArrowRight", "ArrowRight", "ArrowDown", "Space"):
        pad.press(key)
    assert pad.locator("polyline").count() == before + 1
    until(page, "location.hash.includes('hfjflflh')")
    pad.press("Tab")
    assert pad.locator(".pen").count() == 0


def test_the_maps_can_be_saved(static, visit, save):
    page = visit(f"{static}#/see")
    page.wait_for_selector(".picture .veil")
    save(page, page.get_by_role("region", name="Soft attention"))

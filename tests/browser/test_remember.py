"""Remember: bits, the tape, the stages of addressing."""

import pytest
from waiting import until

pytestmark = pytest.mark.browser


def test_a_bit_that_is_clicked_changes_input_and_answer(live, visit):
    page = visit(f"{live}#/remember?bits=ff.0.f0")
    page.get_by_text("All 24 bits of the answer are right.").wait_for()
    bit = page.get_by_role("checkbox", name="Vector 2, bit 1", exact=True)
    assert bit.get_attribute("aria-checked") == "false"
    bit.click()
    until(page, "location.hash.includes('ff.80.f0')")
    page.get_by_text("All 24 bits of the answer are right.").wait_for()
    page.reload()
    bit = page.get_by_role("checkbox", name="Vector 2, bit 1", exact=True)
    bit.wait_for()
    assert bit.get_attribute("aria-checked") == "true"


def test_bits_change_by_keys(live, visit):
    page = visit(f"{live}#/remember?bits=ff.0.f0")
    page.get_by_role("checkbox", name="Vector 1, bit 1", exact=True).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    until(page, "location.hash.includes('ff.40.f0')")


def test_longer_than_it_was_trained_for(live, visit):
    page = visit(f"{live}#/remember")
    slider = page.get_by_role("slider", name="Vectors to copy")
    slider.fill("40")
    page.get_by_text("Longer than anything it was trained on").wait_for()
    page.get_by_text("320 bits of the answer").wait_for()


def test_the_step_that_is_shown_stays_in_view_of_a_long_tape(live, visit):
    page = visit(f"{live}#/remember?bits={'.'.join(['5a', 'c3'] * 20)}", width=390, height=844)
    places = "['.tape .now', '.tape'].map(name => document.querySelector(name).getBoundingClientRect())"
    inside = f"(([now, tape]) => now.right <= innerWidth - 30 && now.left > 80 && tape.width > 390)({places})"
    page.locator(".tape .now").wait_for()
    until(page, inside)  # the last step: without motion the end is there at once
    page.locator(".player input").fill("0")
    until(page, inside)


def test_the_stages_of_a_step(static, visit):
    page = visit(f"{static}#/remember")
    figures = page.locator(".stages figure")
    figures.first.wait_for()
    assert figures.count() == 4
    page.get_by_role("radio", name="Write head").click()
    player = page.get_by_role("group", name="Step by step")
    player.get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.get_by_role("heading", name="Addressing at step 1", exact=True).wait_for()
    assert "most on row" in page.locator(".stages svg").last.get_attribute("aria-label")


def test_recall(live, visit):
    page = visit(f"{live}#/remember?model=ntm-recall")
    page.get_by_text("18 bits of the answer").wait_for()
    page.get_by_role("slider", name="Item that is shown again").fill("1")
    until(page, "location.hash.includes('ask=1')")


def test_the_tape_can_be_saved(static, visit, save):
    page = visit(f"{static}#/remember")
    page.wait_for_selector("svg.tape .write")
    save(page, page.get_by_role("region", name="The tape over time"))

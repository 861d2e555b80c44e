"""Point: click, drag, keys, the exact answer beside it."""

import pytest
from waiting import until

pytestmark = pytest.mark.browser
SQUARE = "#/point?p=100,100+900,120+880,900+120,880+500,450"


def test_the_network_finds_the_hull_of_a_square(live, visit):
    page = visit(live + SQUARE)
    page.get_by_text("The network found the same 4 corners.").wait_for()


def test_a_click_adds_a_point_and_a_drag_moves_it(live, visit):
    page = visit(live + SQUARE)
    plane = page.locator("svg.plane").first
    plane.wait_for()
    box = plane.bounding_box()
    page.mouse.click(box["x"] + 0.5 * box["width"], box["y"] + 0.3 * box["height"])
    until(page, "document.querySelector('svg.plane').querySelectorAll('.dot').length === 6")
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.02 * box["height"], steps=5)
    page.mouse.up()
    page.get_by_text("5 corners").wait_for()
    until(page, "location.hash.includes('500%2C980') || location.hash.includes('500,980')")
    address = page.url
    page.reload()
    page.get_by_text("5 corners").wait_for()
    assert page.url == address


def test_an_answer_that_was_seen_whole_stays_whole_when_it_grows(live, visit):
    page = visit(live + SQUARE)
    page.get_by_text("same 4 corners").wait_for()
    box = page.locator("svg.plane").first.bounding_box()
    page.mouse.click(box["x"] + 0.5 * box["width"], box["y"] + 0.02 * box["height"])
    page.get_by_text("5 corners").wait_for()
    count = page.get_by_role("group", name="Pointing, step by step").locator(".count")
    assert count.inner_text() == "5 of 5"


def test_points_move_and_go_by_keys(live, visit):
    page = visit(live + SQUARE)
    page.get_by_role("button", name="Point 5").focus()
    page.keyboard.press("ArrowUp")
    page.get_by_role("button", name="Point 5 at 0.50, 0.47").wait_for()
    page.keyboard.press("Delete")
    until(page, "document.querySelector('svg.plane').querySelectorAll('.dot').length === 4")


def test_sorting(live, visit):
    page = visit(f"{live}#/point?model=sort&p=900+100+500+300+700")
    page.get_by_text("5 of 5 numbers").wait_for()
    page.get_by_role("button", name="Number 2").focus()
    page.keyboard.press("ArrowUp")
    page.get_by_role("button", name="Number 2: 0.12").wait_for()


def test_steps_can_be_gone_through(static, visit):
    page = visit(f"{static}#/point")
    player = page.get_by_role("group", name="Pointing, step by step")
    count = player.locator(".count")
    count.wait_for()
    total = count.inner_text().split()[-1]
    player.get_by_role("button", name="One step back").click()
    assert count.inner_text().split()[0] == str(int(total) - 1)
    player.get_by_role("slider").focus()
    page.keyboard.press("Home")
    assert count.inner_text().split()[0] == "1"


def test_the_drawings_can_be_saved(static, visit, save):
    page = visit(f"{static}#/point")
    page.wait_for_selector("polygon.answer")
    files = save(page, page.get_by_role("region", name="The network points", exact=True))
    assert b"stroke" in files[".svg"]

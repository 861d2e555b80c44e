"""What holds in every room: it opens, moves at once, can be listened to, and fits a telephone."""

import re

import pytest
from waiting import until

pytestmark = pytest.mark.browser
ROOMS = (
    "translate",
    "point",
    "remember",
    "ask",
    "read",
    "read?tab=score",
    "see",
    "see?tab=sample",
    "see?tab=characters",
    "mechanisms?name=divide-by-length",
    "compare",
    "compare?tab=comparisons",
    "model",
)


def settle(page):
    page.wait_for_load_state("networkidle")
    until(page, "!document.querySelector('[aria-busy=true]')")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_of_the_examples_is_accessible_in_light(room, static, visit, check_access):
    page = visit(f"{static}#/{room}", color_scheme="light")
    settle(page)
    assert "regard studio" in page.title()
    assert check_access(page) == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_accessible_in_dark_and_chinese_and_fits_a_telephone(room, live, visit, check_access):
    page = visit(f"{live}#/{room}", color_scheme="dark", locale="zh-CN", width=390, height=844)
    settle(page)
    assert page.locator("html").get_attribute("lang") == "zh-Hans"
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert check_access(page) == []


def test_the_reference_of_the_api_is_accessible_on_a_telephone(live, visit, check_access):
    page = visit(f"{live}docs", color_scheme="dark", width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert check_access(page) == []


def test_the_first_screen_moves_within_two_seconds(static, visit):
    page = visit(static, still=False)
    count = page.locator(".player .count")
    count.wait_for(timeout=2000)
    first = count.inner_text()
    until(page, "text => document.querySelector('.player .count').innerText !== text", first, seconds=2)


def test_a_server_that_still_loads_has_a_page_that_moves(live, visit, chromium):
    held = []
    context = chromium.new_context()
    page = context.new_page()
    page.route("**/v1/models", lambda route: held.append(route))
    page.goto(live)
    page.locator(".player .count").wait_for()
    assert page.locator(".banner").count() == 0  # nobody says that there is no server
    assert page.get_by_role("button", name="Edit").count() == 0
    held[0].continue_()
    page.get_by_role("button", name="Edit").wait_for()
    context.close()


def test_whoever_wants_no_motion_sees_the_end_at_once(static, visit):
    page = visit(static, still=True)
    page.wait_for_selector(".player .count")
    assert page.locator(".out .coming").count() == 0


def test_language_and_light_are_remembered(static, visit):
    page = visit(static)
    page.get_by_role("button", name="中文").click()
    page.get_by_role("heading", name="翻译", level=1).wait_for()
    page.get_by_role("button", name="深色").click()
    page.reload()
    page.get_by_role("heading", name="翻译", level=1).wait_for()
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_all_rooms_can_be_reached_by_keys(static, visit):
    page = visit(static)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_role("link", name="Point").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Point", level=1).wait_for()
    page.go_back()
    page.get_by_role("heading", name="Translate", level=1).wait_for()


def test_a_room_begins_at_its_top(static, visit):
    page = visit(f"{static}#/translate")
    page.locator(".rg-cells").first.wait_for()
    page.mouse.wheel(0, 900)
    until(page, "scrollY > 300")
    page.get_by_role("link", name="Point").click()
    page.get_by_role("heading", name="Point", level=1).wait_for()
    until(page, "scrollY === 0")


def test_without_a_server_the_page_says_so(static, visit):
    page = visit(static)
    assert "regard studio" in page.get_by_role("status").first.inner_text()
    page.get_by_label("English", exact=True).last.fill("A sentence that nobody kept.")
    assert "needs the server" in page.get_by_role("alert").first.inner_text()


def test_a_server_that_goes_away_is_reported(live, visit):
    page = visit(live)
    page.route("**/v1/translate", lambda route: route.abort())
    page.locator("textarea").first.fill("Where is the station?")
    assert "does not answer" in page.get_by_role("alert").first.inner_text()
    visit.problems.clear()  # the browser itself notes the request that failed


def test_a_server_with_a_token_is_used_with_it_and_refused_without(locked, visit):
    address, token = locked
    page = visit(f"{address}#/ask")
    assert "asks for a token" in page.get_by_role("alert").inner_text()
    assert page.locator(".card").count() == 0
    page = visit(f"{address}#token={token}")
    assert token not in page.url
    page.get_by_role("link", name="Ask").click()
    page.get_by_role("button", name="Where is Lena?").click()
    page.get_by_label("Question", exact=True).fill("Where is Paul?")
    page.locator(".answer-line", has_text="garden").wait_for()
    page.reload()  # the tab remembers it
    page.locator(".answer-line", has_text="garden").wait_for()


WRONG = (
    *("translate?layer=x&head=-1&hypothesis=99&part=none", "translate?model=nobody", "point?p=1,2,3"),
    *("point?model=nobody", "remember?ask=x&bits=zz", "remember?model=nobody", "see?number=x&scene=999"),
    *("see?tab=sample&seed=1.5&picture=77", "see?tab=characters&d=_", "see?tab=nothing"),
    *("mechanisms?name=nobody&noise=x", "read?tab=score&text=%20", "nowhere"),
)


@pytest.mark.parametrize("room", WRONG)
def test_an_address_with_wrong_values_opens_its_room_all_the_same(room, live, visit):
    page = visit(f"{live}#/{room}")
    settle(page)
    assert page.locator(".card").count() > 0
    assert page.get_by_text("This room failed.").count() == 0
    visit.problems[:] = [each for each in visit.problems if not re.search("status of 4(04|22)", each)]


def test_the_room_that_is_open_can_be_seen_in_the_list_of_a_telephone(static, visit):
    page = visit(f"{static}#/model", width=390, height=844)
    place = page.locator(".rooms [aria-current]").bounding_box()
    assert place["x"] >= 0
    assert place["x"] + place["width"] <= 390


def test_the_first_screen_of_a_telephone_shows_words_and_curves(live, visit):
    page = visit(live, width=390, height=844)
    page.locator(".rg-curves path").first.wait_for()
    assert page.locator(".out").bounding_box()["y"] < 600
    assert page.locator(".rg-curves").bounding_box()["y"] < 700


def test_an_error_is_said_in_the_language_of_the_page(live, visit):
    page = visit(live, locale="zh-CN")
    page.locator("textarea").first.fill("word " * 160)
    page.get_by_role("alert").wait_for()
    said = page.get_by_role("alert").inner_text()
    assert said.startswith("内容太长。")
    assert "expected 150 at most" in said  # with the numbers, as the server says them
    visit.problems.clear()


def test_what_is_no_drawing_of_its_own_is_saved_as_one(static, visit, save):
    page = visit(f"{static}#/read?tab=score")
    found = save(page, page.locator(".card", has_text="How surprising each word was"))
    for word in ("novel", "7.0"):
        assert f">{word}</text>".encode() in found[".svg"]
    assert page.evaluate("document.activeElement.innerText") == "Save"  # who saved by keys goes on from there
    page = visit(f"{static}#/see?tab=characters")
    found = save(page, page.locator(".card", has_text="Five new characters"))
    assert found[".svg"].count(b"<polyline") >= 8
    assert found[".svg"].count(b"<svg") == 6

"""Ask: a story, a question, the hops."""

import pytest
from waiting import until

pytestmark = pytest.mark.browser


def test_a_story_of_ones_own(live, visit):
    page = visit(f"{live}#/ask")
    page.locator("textarea").fill("Lena took the lamp.\nLena went to the attic.")
    page.get_by_label("Question").last.fill("Where is the lamp?")
    page.locator(".hopmap text", has_text="Lena went to the attic.").wait_for()
    assert "attic" in page.locator(".answer-line").inner_text()
    until(page, "location.hash.includes('Lena+took')")
    page.reload()
    page.locator(".hopmap text", has_text="Lena went to the attic.").wait_for()


def test_hops_can_be_gone_through(static, visit):
    page = visit(f"{static}#/ask")
    player = page.get_by_role("group", name="Hop by hop")
    player.get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.get_by_text("Hop 1 looked most at “Anna took the lamp.”").wait_for()


def test_an_empty_story_and_unknown_words_are_answered_with_sentences(live, visit):
    page = visit(f"{live}#/ask")
    page.locator("textarea").fill("")
    assert "one sentence a line" in page.get_by_role("alert").first.inner_text()
    page.locator("textarea").fill("Xerxes besieged Byzantium.")
    page.get_by_text("passes over: xerxes, besieged, byzantium.").wait_for()
    page.locator(".answer-line").wait_for()


def test_the_hops_can_be_saved(static, visit, save):
    page = visit(f"{static}#/ask")
    page.wait_for_selector("svg.hopmap")
    files = save(page, page.get_by_role("region", name="What it looked at"))
    assert b"Anna took the lamp." in files[".svg"]


def test_the_examples_are_answered_rightly(static, visit):
    page = visit(f"{static}#/ask")
    for question, answer in (
        ("Where is the lamp?", "attic"),
        ("Where is Lena?", "attic"),
        ("Where is the book?", "cellar"),
    ):
        page.get_by_role("button", name=question).click()
        page.locator(".answer-line", has_text=answer).wait_for()
        assert page.get_by_text("passes over").count() == 0

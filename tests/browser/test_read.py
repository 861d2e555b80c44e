"""Read: whether a sentence follows, and a language model that looks back."""

import pytest
from waiting import until

pytestmark = pytest.mark.browser


def test_a_word_that_is_replaced_changes_the_verdict_and_the_address(live, visit, save):
    page = visit(f"{live}#/read")
    page.locator(".answer-line", has_text="It follows").wait_for()
    page.get_by_label("Does this follow?").fill("w52 -w39 w58 w47")
    page.locator(".answer-line", has_text="It contradicts").wait_for()
    until(page, "location.hash.includes('-w39')")
    page.reload()
    page.locator(".answer-line", has_text="It contradicts").wait_for()
    assert b"-w39" in save(page, page.get_by_role("region", name="What each word was compared with"))[".svg"]


def test_a_word_that_is_pointed_at_lights_up_in_map_and_curves(static, visit):
    page = visit(f"{static}#/read?tab=score")
    page.locator(".surprise li", has_text="coat").hover()
    page.get_by_text("“coat” looked at").first.wait_for()
    said = page.locator(".rg-say").all_inner_texts()
    assert len(said) == 2
    assert all("coat" in text for text in said)


def test_what_may_come_next_is_asked_for_the_beginning_of_a_sentence(live, visit):
    page = visit(f"{live}#/read?tab=score")
    page.get_by_label("Sentence", exact=True).last.fill("The boy who")
    page.locator(".shares th", has_text="often").wait_for()
    page.get_by_label("Sentence", exact=True).last.fill("wo " * 600)
    page.get_by_role("button", name="The boy who often wears an old green coat", exact=True).click()
    page.locator(".surprise li").nth(9).wait_for()


def test_an_empty_sentence_is_answered_with_one(static, visit):
    page = visit(f"{static}#/read")
    page.get_by_label("Given").fill("")
    assert "Write both sentences." in page.get_by_role("alert").inner_text()

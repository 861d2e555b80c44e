"""Translate: type, look, choose, edit."""

from urllib.parse import quote

import pytest
from waiting import until

pytestmark = pytest.mark.browser
APPLE = "She is eating a green apple."


def test_typing_translates_and_the_address_has_it(live, visit):
    page = visit(live)
    page.locator("textarea").first.fill(APPLE)
    page.get_by_text("Elle mange une pomme verte.").first.wait_for()
    until(page, "location.hash.includes('green+apple')")
    page.reload()
    page.get_by_text("Elle mange une pomme verte.").first.wait_for()
    assert page.locator("textarea").first.input_value() == APPLE


def test_a_word_that_is_pointed_at_says_what_it_looked_at(live, visit):
    page = visit(f"{live}#/translate?model=demo-rnnsearch&text={quote(APPLE)}")
    page.locator(".out .word", has_text="verte").hover()
    page.get_by_text("“verte” looked at").first.wait_for()
    said = page.locator(".rg-say").all_inner_texts()
    assert len(said) >= 2
    assert all("verte" in text for text in said[:2])  # curves and map show the same row


def test_a_hypothesis_has_its_own_alignment_and_address(live, visit):
    page = visit(f"{live}#/translate?text={quote(APPLE)}")
    rows = page.locator(".beam button")
    rows.nth(1).click()
    second = rows.nth(1).locator("span").last.inner_text()
    until(page, "location.hash.includes('hypothesis=1')")
    assert page.locator("p.out").inner_text() == second
    page.reload()
    page.wait_for_selector(".beam button")
    assert page.locator(".beam button").nth(1).get_attribute("aria-pressed") == "true"


def test_the_tree_has_what_the_search_gave_up_and_leads_to_each_hypothesis(live, visit, save):
    page = visit(f"{live}#/translate?text={quote(APPLE)}")
    page.get_by_role("radio", name="Tree").click()
    page.locator(".tree .end").nth(3).wait_for()
    assert page.locator(".tree text.dropped").count() > 3
    third = page.locator(".tree .end").nth(2)
    third.focus()
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('hypothesis=2')")
    assert page.locator("p.out").inner_text() in third.get_attribute("aria-label")
    assert b"pomme" in save(page, page.get_by_role("region", name="Hypotheses"))[".svg"]


def test_two_models_side_by_side(static, visit):
    page = visit(static)
    page.get_by_role("button", name="With and without attention").click()
    page.get_by_text("has no attention").wait_for()
    texts = page.locator("p.out").all_inner_texts()
    assert texts[0].startswith("Le garçon qui porte souvent un vieux manteau vert")
    assert texts[1] != texts[0]


def test_models_are_put_beside_one_another_and_the_address_has_them(live, visit):
    page = visit(f"{live}#/translate?model=demo-rnnsearch")
    beside = page.get_by_role("group", name="Beside it")
    for name in ("Transformer", "Without attention"):
        beside.get_by_role("button", name=name, exact=True).click()
    until(page, "document.querySelectorAll('p.out .word').length > 20")
    assert page.locator(".rg-curves svg").count() == 2  # the third has no attention
    page.reload()
    page.wait_for_selector("p.out")
    assert page.locator("p.out").count() == 3
    page.get_by_role("button", name="Transformer", exact=True).click()
    until(page, "document.querySelectorAll('p.out').length === 2")


def test_a_target_that_is_edited_is_aligned(live, visit):
    page = visit(f"{live}#/translate?model=demo-rnnsearch&text={quote(APPLE)}")
    page.wait_for_selector("p.out .word")
    page.get_by_role("button", name="Edit").click()
    page.locator("textarea.out").fill("Elle mange une grosse pomme verte.")
    page.locator(".rg-curves text", has_text="grosse").wait_for()
    assert "target=" in page.url


def test_heads_of_a_transformer(live, visit):
    page = visit(f"{live}#/translate?text={quote(APPLE)}")
    grid = page.get_by_role("grid")
    grid.scroll_into_view_if_needed()
    grid.get_by_role("button").nth(5).click()
    until(page, "location.hash.includes('layer=1') && location.hash.includes('head=1')")
    page.get_by_role("radio", name="Encoder", exact=True).click()
    page.get_by_text("The source looks at itself.").wait_for()


def test_the_drawings_can_be_saved(static, visit, save):
    page = visit(static)
    page.wait_for_selector(".rg-curves svg")
    files = save(page, page.get_by_role("region", name="What it looked at"))
    assert "vieil" in files[".svg"].decode()
    save(page, page.get_by_role("region", name="Alignment"))


def test_a_text_that_is_too_long_is_answered_with_a_sentence(live, visit):
    page = visit(live)
    page.locator("textarea").first.fill("wo " * 600)
    alert = page.get_by_role("alert").first
    alert.wait_for()
    assert "pieces" in alert.inner_text()
    visit.problems.clear()  # the browser itself notes an answer of 422
    page.locator("textarea").first.fill(APPLE)
    page.get_by_text("Elle mange une pomme verte.").first.wait_for()


def test_the_limit_of_pieces_is_shown_before_it_is_hit(live, visit):
    text = quote(" ".join(["She is eating a green apple."] * 18))
    page = visit(f"{live}#/translate?model=demo-rnnsearch&text={text}")
    page.get_by_text("126 of 150 pieces of words").wait_for()

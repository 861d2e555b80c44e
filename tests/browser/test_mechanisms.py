"""Mechanisms and Any model."""

import base64
import json
import re
import struct

import pytest
from waiting import until

pytestmark = pytest.mark.browser


def test_every_mechanism_has_a_page(static, visit):
    page = visit(f"{static}#/mechanisms")
    links = page.locator(".shelf nav a")
    links.first.wait_for()
    assert links.count() > 20
    for number in range(links.count()):
        title = links.nth(number).inner_text().split("\n")[0]
        links.nth(number).click()
        page.get_by_role("heading", name=title, exact=True, level=3).wait_for()
        page.get_by_text("regard/").first.wait_for()


def test_a_mechanism_leads_to_its_file(live, visit):
    page = visit(f"{live}#/mechanisms?name=sparsemax")
    page.get_by_role("button", name="regard/attention/normalizers/sparsemax.py").click()
    page.get_by_text("class Sparsemax").wait_for()
    page.get_by_role("link", name="Additive").click()
    page.get_by_role("heading", name="Additive", exact=True, level=3).wait_for()
    assert page.get_by_text("class Sparsemax").count() == 0


def test_a_slider_moves_the_example_and_the_address(live, visit):
    page = visit(f"{live}#/mechanisms?name=softmax")
    page.get_by_role("slider", name="Temperature").fill("5")
    until(page, "location.hash.includes('temperature=5')")
    with page.expect_response("**/v1/mechanism") as answer:
        page.get_by_role("slider", name="Temperature").fill("0.1")
    assert answer.value.ok
    page.reload()
    slider = page.get_by_role("slider", name="Temperature")
    slider.wait_for()
    assert slider.input_value() == "0.1"


def test_the_example_can_be_saved(static, visit, save):
    page = visit(f"{static}#/mechanisms?name=sparsemax")
    page.wait_for_selector(".rg-cells")
    save(page, page.get_by_role("region", name="Move it"))


def test_a_symbol_leads_to_what_it_stands_for(live, visit):
    page = visit(f"{live}#/mechanisms?name=ntm-addressing")
    page.get_by_role("button", name="γ: Sharpening γ").first.hover()
    page.locator("label.lit", has_text="Sharpening").wait_for()
    page.get_by_role("button", name="γ: Sharpening γ").first.click()
    assert page.evaluate("document.activeElement.name") == "gamma"
    page.keyboard.press("ArrowRight")
    until(page, "location.hash.includes('gamma=2.5')")
    page.get_by_role("button", name="w_g: Gate").first.hover()
    page.get_by_text("“Gate” looked at").wait_for()  # its row of the map
    page.goto(f"{live}#/mechanisms?name=additive")
    page.get_by_role("button", name="e: the scores").first.click()
    until(page, "document.querySelector('[role=radio][aria-checked=true]').innerText === 'Scores'")


def test_scores_are_told_as_they_are_and_hidden_ones_as_hidden(live, visit):
    page = visit(f"{live}#/mechanisms?name=dot")
    page.get_by_role("radio", name="Scores").click()
    cells = page.locator(".rg-cells")
    ends = "[...document.querySelector('.rg-legend')?.childNodes ?? []].map(e => e.textContent).join(' ')"
    until(page, f"{ends} === '-1.79  4.3'")
    cells.hover(position={"x": 5, "y": 5})
    answer = page.request.post(f"{live}v1/mechanism", data={"name": "dot"}).json()
    first = struct.unpack("<f", base64.b64decode(answer["scores"]["data"])[:4])[0]
    page.get_by_text(f"query 1, key 1: {first:.3g}.").wait_for()
    page.goto(f"{live}#/mechanisms?name=local-monotonic")
    page.get_by_role("radio", name="Scores").click()
    until(page, f"{ends}.endsWith(' 4.3')")
    box = cells.bounding_box()
    cells.hover(position={"x": box["width"] - 5, "y": 5})
    page.get_by_text("query 1, key 8: hidden.").wait_for()


def test_mechanisms_have_chinese_titles_and_what_was_measured(static, visit):
    page = visit(f"{static}#/mechanisms?name=additive", locale="zh-CN")
    page.get_by_role("heading", name="加性", level=3).wait_for()
    page.get_by_role("link", name="缩放点积").wait_for()
    assert page.get_by_role("region", name="测得的结果").get_by_role("row").count() > 2


def saved_page(layers):
    """A page of regard.view with so many layers of two heads, the second pooled."""
    head = {"shape": [2, 2], "type": "uint8", "scale": 1.0, "data": "/wAA/w==", "pool": 1}
    layer = {"shape": [2, 2], "rows": 0, "columns": 0, "heads": [head, head | {"pool": 4}]}
    every = [layer | {"name": str(n), "path": f"blocks.{n}"} for n in range(layers)]
    data = {"groups": [{"name": "Self", "layers": every}], "texts": [["one", "two"]]}
    saved = f'<!doctype html><script type="application/json" id="data">{json.dumps(data)}</script>'
    return {"name": "attention.html", "mimeType": "text/html", "buffer": saved.encode()}


def test_a_saved_trace_is_opened(static, visit, save):
    page = visit(f"{static}#/model")
    page.set_input_files("input[type=file]", saved_page(1))
    page.get_by_text("1 of 2 heads are shown pooled.").wait_for()
    assert b"two" in save(page, page.get_by_role("region", name="attention.html"))[".svg"]
    for wrong in (b"<p>something else</p>", b'<script id="data">{"texts": [], "groups": [{}]}</script>'):
        page.set_input_files("input[type=file]", saved_page(1) | {"buffer": wrong})
        assert "no page of regard.view" in page.get_by_role("alert").inner_text()


def test_the_view_of_any_model_speaks_chinese_and_shows_the_page_that_was_opened_last(static, visit):
    page = visit(f"{static}#/model", locale="zh-CN")
    for layers in (2, 3):
        page.set_input_files("input[type=file]", saved_page(layers))
        until(page, "n => document.querySelectorAll('.rg-heads tbody tr').length === n", layers)
    page.locator(".rg-title", has_text="层 0, 头 0").wait_for()
    page.locator(".rg-heads button").nth(1).click()
    page.get_by_text("每个格子是 4 × 4 个权重中的最大值").wait_for()
    card = page.get_by_role("region", name="attention.html")
    labels = "[...document.querySelectorAll('.rg-trace *')].map(e => [e.ariaLabel, e.title].join()).join()"
    said = card.inner_text() + page.evaluate(labels)
    names = r"attention.html|regard.view|limit|widget|blocks|Self|one|two"
    assert re.findall("[A-Za-z]{3,}", re.sub(names, "", said)) == []


def test_a_model_of_transformers_on_this_disk_is_opened(live, folders, visit):
    from transformers import BertConfig, BertModel

    page = visit(f"{live}#/model")
    page.get_by_text("regard studio --allow-folder DIR").wait_for()
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=9, **sizes)).save_pretrained(folders / "models" / "tiny-bert")
    write_tokenizer(folders / "models" / "tiny-bert")
    page.reload()
    page.get_by_label("Text that it reads").fill("the cat sat on the mat")
    until(page, "document.querySelectorAll('.rg-heads button').length === 8")
    page.get_by_role("button", name="sat").first.wait_for()
    until(page, "location.hash.includes('cat+sat')")
    (folders / "models" / "tiny-bert" / "tokenizer.json").unlink()


def write_tokenizer(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["[UNK]", "[PAD]", "the", "cat", "sat", "on", "mat"]
    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]").save_pretrained(
        folder
    )


def test_a_page_that_embeds_a_room_shows_that_room_alone_in_its_language(static, visit):
    page = visit(f"{static}#/mechanisms")
    page.goto(f"{static}?lang=zh&embed#/mechanisms?name=additive")
    page.get_by_role("heading", name="加性", exact=True).wait_for()
    assert page.locator("main .card").count() >= 2
    for hidden in ("header.top", ".intro", ".shelf nav"):
        assert not page.locator(hidden).is_visible()

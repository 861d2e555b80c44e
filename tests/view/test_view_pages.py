"""`regard.view`: the page of a trace holds the weights, in few bytes, and asks nothing of any host."""

import json
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from matrices import decode_matrix
from torch import nn

import regard
from regard.errors import RegardError
from regard.notebook.tiles import pool, tiles_of
from regard.web.matrix import quantize, wire

WORDS = ["the", "cat", "sat", "on", "the", "mat"]


def encoder(layers=2, width=32, heads=4):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, batch_first=True), layers).eval()


@pytest.fixture(scope="module")
def trace():
    model = encoder()
    with regard.record(model) as trace:
        model(torch.randn(2, 6, 32))
    return trace


def data_of(html):
    [text] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(text)


class Reader(HTMLParser):
    """Fails on a tag that is not closed, and on an attribute that stands twice."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs)
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_what_the_page_holds_equals_the_weights_to_the_quantisation_step(trace):
    data = data_of(regard.view(trace, WORDS, batch=1).html())
    [group] = data["groups"]
    assert group["name"] == "layers.self_attn"
    assert [layer["name"] for layer in group["layers"]] == ["0", "1"]
    assert data["texts"] == [WORDS]
    for layer in group["layers"]:
        weights = trace[layer["path"]][0].weights[1].detach().numpy()
        assert (layer["rows"], layer["columns"], layer["shape"]) == (0, 0, [6, 6])
        for head, expected in zip(layer["heads"], weights, strict=True):
            assert head["pool"] == 1
            np.testing.assert_allclose(decode_matrix(head), expected, atol=0.51 * head["scale"] / 255)


def test_the_page_is_valid_and_asks_nothing_of_any_host(trace):
    html = regard.view(trace, ["</script><script>x", '"', "&", "'", "<!--", "c"]).html()
    reader = Reader()
    reader.feed(html)
    assert not reader.open
    assert html.startswith("<!doctype html>")
    assert "default-src 'none'" in html
    assert not re.search(r"\b(src|href)=[\"']?(https?:)?//", html)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", html)
    assert not re.search(r"\b(XMLHttpRequest|WebSocket|import\(|eval\()", html)
    assert data_of(html)["texts"] == [["</script><script>x", '"', "&", "'", "<!--", "c"]]


def test_a_trace_a_result_and_a_view_show_themselves(trace):
    for shown in (trace, trace["layers.0.self_attn"][0], regard.view(trace)):
        frame = shown._repr_html_()
        assert frame.startswith('<iframe srcdoc="')
        page = unescape(frame.partition('srcdoc="')[2].partition('"')[0])
        assert data_of(page)["groups"]
    attention = regard.Attention(regard.DotScore())
    result = attention(torch.randn(3, 2, 8), attention.prepare(torch.randn(3, 5, 8)))
    assert data_of(regard.view(result).html())["groups"][0]["layers"][0]["shape"] == [2, 5]


def test_what_cannot_be_shown_says_so_in_words():
    assert regard.Trace()._repr_html_().startswith("<pre>Trace of 0 modules, 0 calls")


def test_twelve_layers_of_twelve_heads_and_512_tokens_fit_in_two_megabytes():
    """Random weights, the worst case: they cannot be compressed."""
    from regard.notebook.layers import Layer, Texts
    from regard.notebook.view import View

    weights = torch.rand(1, 12, 512, 512).pow(8)
    weights = weights / weights.sum(-1, keepdim=True)
    layers = [Layer(f"layers.{i}", 12, 512, 512, 0, weights) for i in range(12)]
    view = View(layers, Texts([f"token{i}" for i in range(512)], None))
    assert len(view._repr_html_().encode()) < 2_000_000
    [group] = view.data["groups"]
    head = group["layers"][3]["heads"][5]
    assert head["pool"] > 1  # the page says how many are
    expected = pool(weights[0, 5], head["pool"])
    np.testing.assert_allclose(decode_matrix(head), expected, atol=0.51 * head["scale"] / 255)


def test_heads_that_compress_well_stay_exact_and_the_largest_are_pooled():
    from regard.notebook.layers import Layer

    sharp, noisy = torch.eye(256), torch.rand(256, 256)
    weights = torch.stack([sharp, noisy / noisy.sum(-1, keepdim=True)])[None]
    [[first, second]] = tiles_of([Layer("", 2, 256, 256, 0, weights)], limit=30_000)
    assert first.pool == 1
    assert second.pool > 1
    assert first.size + second.size <= 30_000


def test_too_many_weights_are_pooled_before_they_are_compressed(monkeypatch):
    from regard.notebook import tiles
    from regard.notebook.layers import Layer

    monkeypatch.setattr(tiles, "MOST", 1000)
    weights = torch.rand(1, 2, 60, 61)
    [row] = tiles.tiles_of([Layer("", 2, 60, 61, 0, weights)], limit=10**6)
    assert [tile.pool for tile in row] == [4, 4]
    assert row[0].levels.shape == (15, 16)
    np.testing.assert_allclose(row[0].scale, weights[0, 0].max().item(), rtol=1e-6)


def test_a_matrix_travels_exactly_or_in_bytes():
    weights = torch.rand(5, 7)
    np.testing.assert_array_equal(decode_matrix(wire(weights, 1.0, compress=True)), weights)
    found = wire(*quantize(weights), compress=False)
    np.testing.assert_allclose(decode_matrix(found), weights, atol=0.51 / 255)
    assert not quantize(torch.full((2, 2), torch.nan))[0].any()


def test_files_of_each_kind(trace, tmp_path, monkeypatch):
    view = regard.view(trace, WORDS)
    assert view.save(tmp_path / "x.html").read_text(encoding="utf-8") == view.html()
    assert view.save(tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert view.save(tmp_path / "x.svg").read_bytes().startswith(b"<?xml")
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert view.open().as_uri() == opened[0]
    attention = regard.Attention(regard.DotScore())
    result = attention(torch.randn(1, 3, 8), attention.prepare(torch.randn(1, 4, 8)))
    assert b"sat" in regard.view(result, WORDS[:4]).save(tmp_path / "one.svg").read_bytes()


def test_wrong_arguments_are_told(trace):
    with pytest.raises(
        RegardError, match=r"^view: `tokens` has 4 tokens; expected one per position of an axis: 6"
    ):
        regard.view(trace, WORDS[:4])
    with pytest.raises(RegardError, match=r"^view: `tokens` has the text 'a b'; expected a list of tokens"):
        regard.view(trace, "a b")
    with pytest.raises(RegardError, match=r"^view: `batch` has 2; expected below 2, the number of examples"):
        regard.view(trace, batch=2)
    with pytest.raises(RegardError, match=r"^view: `call` has 1; expected below 1, the number of calls"):
        regard.view(trace, call=1)
    with pytest.raises(
        RegardError, match=r"^view: `trace` has a Tensor; expected what `record\(model\)` gives"
    ):
        regard.view(torch.ones(2, 2))
    with pytest.raises(RegardError, match=r"^view: `trace` has no results; expected one or more"):
        regard.view(regard.Trace())
    with pytest.raises(RegardError, match=r"^View.save: `path` has the ending '.gif'"):
        regard.view(trace).save("x.gif")

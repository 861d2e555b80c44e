import base64
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fontTools.ttLib import TTFont
from matrices import decode_matrix
from seeds import offset_seed

from regard.errors import ConfigError, DataError, ShapeError
from regard.viz.heatmap import draw_alignment
from regard.viz.report import (
    AlignmentSection,
    FigureSection,
    Section,
    TableSection,
    TextSection,
    TranslationSection,
    render_report,
    script,
    write_report,
)

VOID = {"meta", "img", "br", "link", "input", "hr"}
EVIL = """<script>alert("x")</script>"""


class Reader(HTMLParser):
    """Fails on a tag that is not closed; collects tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in <{tag}>"
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    return reader


def alignments(html: str) -> list[dict[str, Any]]:
    """The data of the views of a page."""
    found = re.findall(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)
    return [json.loads(text) for text in found]


def report(*sections: Section, title: str = "Title", summary: str = "Summary.") -> str:
    return render_report(title=title, summary=summary, sections=sections)


@pytest.fixture
def everything(tmp_path: Path) -> list[Section]:
    picture = draw_alignment(torch.eye(3), list("abc"), list("xyz"), path=tmp_path / "a.svg")
    png = draw_alignment(torch.eye(3), list("abc"), list("xyz"), path=tmp_path / "a.png").read_bytes()
    return [
        TextSection("Text", "One.\n\nTwo."),
        TableSection("Table", ["model", "BLEU"], [["a", 1.5], ["b", None]], "caption"),
        FigureSection("SVG", picture, "three by three"),
        FigureSection("PNG", png, "the same", "caption"),
        AlignmentSection("Alignment", torch.eye(3), list("abc"), list("xyz"), "caption", gold=[(0, 0)]),
        TranslationSection("Translations", [("s", "a b", "a c")]),
    ]


def test_the_page_is_well_formed_and_holds_everything_it_shows(everything: list[Section]) -> None:
    html = report(*everything)
    reader = read(html)
    assert html.startswith("<!doctype html>")
    assert not re.search(r"(https?:)?//\w", re.sub(r"base64,[\w+/=]+", "", html.replace(script(), "")))
    assert not re.search(r"\b(fetch|import|XMLHttpRequest|WebSocket|innerHTML|eval)\b", script())
    assert all(image["src"].startswith("data:image/") for image in reader.all("img"))
    assert all(link["href"].startswith("#") for link in reader.all("a"))
    assert not reader.all("link")
    policy = next(meta["content"] for meta in reader.all("meta") if "http-equiv" in meta)
    assert policy.startswith("default-src 'none'")
    identifiers = {section["id"] for section in reader.all("section")}
    assert {link["href"][1:] for link in reader.all("a")} == identifiers


def test_the_page_follows_the_reader_in_colour_width_and_print(everything: list[Section]) -> None:
    html = report(*everything)
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert 'name="viewport"' in html


def test_all_text_is_escaped(tmp_path: Path) -> None:
    svg = b"<svg onload='alert(1)'>" + EVIL.encode() + b"</svg>"
    html = report(
        TextSection(EVIL, EVIL),
        TableSection(EVIL, [EVIL], [[EVIL]], EVIL),
        FigureSection(EVIL, svg, f'"{EVIL}', EVIL),
        AlignmentSection(EVIL, torch.eye(2), [EVIL, "' onfocus='x"], ['" onfocus="x', "&amp;"], EVIL),
        TranslationSection(EVIL, [(EVIL, EVIL, "a")], EVIL),
        title=EVIL,
        summary=EVIL,
    )
    reader = read(html)
    assert len(reader.all("script")) == 2  # the data of the view, and what draws it
    assert "alert" not in script()
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)
    [data] = alignments(html)
    assert data["columns"] + data["rows"] == [EVIL, "' onfocus='x", '" onfocus="x', "&amp;"]
    assert "".join(reader.texts).count(EVIL) >= 11


def test_weights_travel_as_bytes_and_keep_two_decimals() -> None:
    weights = np.random.default_rng(offset_seed(0)).dirichlet(np.ones(7) * 0.3, size=5)
    html = report(AlignmentSection("a", weights, list("abcdefg"), list("vwxyz"), gold=[(6, 0), (1, 4)]))
    [data] = alignments(html)
    np.testing.assert_allclose(decode_matrix(data["matrix"]), weights, atol=0.002)
    assert data["marks"] == [[4, 1], [0, 6]]


def test_the_first_word_shown_is_not_a_full_stop() -> None:
    weights = torch.tensor([[0.6, 0.4], [0.8, 0.2], [0.0, 1.0]])
    [data] = alignments(report(AlignmentSection("a", weights, ["cat", "."], ["le", "chat", "."])))
    assert data["selected"] == 1


def test_a_map_of_sixty_words_costs_little_and_twenty_of_thirty_fit_in_a_megabyte() -> None:
    def view(n: int) -> AlignmentSection:
        words = [f"word{i}" for i in range(n)]
        return AlignmentSection("a", torch.rand(n, n).softmax(-1), words, words)

    one, two = len(report(view(60))), len(report(view(60), view(60)))
    data = 4 * 60 * 60 / 3
    assert two - one < data + 12_000  # the words, twice, and the frame around them
    assert len(report(*[view(30)] * 20).encode()) < 300_000


def test_numbers_are_aligned_and_have_equal_decimals() -> None:
    rows = [["a", 41.02, 3, "12 %", True, None], ["b", 38.0, -4, "7 %", False, 1.0]]
    reader = read(report(TableSection("t", ["model", "BLEU", "n", "share", "fits", "AER"], rows)))
    heads = ["number" in cell.get("class", "") for cell in reader.all("th")]
    assert heads == [False, True, True, True, False, True]
    text = " ".join(part.strip() for part in reader.texts if part.strip())
    assert "a 41.02 3 12 % yes – b 38.00 -4 7 % no 1" in text


def test_a_column_of_numbers_stays_one_where_a_cell_is_empty() -> None:
    rows = [["a", "0.871 ± 0.000", ""], ["b", "", ""], ["c", "0.5 ± 0.1 %", ""]]
    reader = read(report(TableSection("t", ["model", "AER", "nothing"], rows)))
    assert ["number" in cell.get("class", "") for cell in reader.all("th")] == [False, True, False]


def test_differing_words_are_marked() -> None:
    html = report(
        TranslationSection("t", [("s", "le chat <b> dort", "le chien dort"), ("s", "她在吃。", "她正在吃。")])
    )
    assert '<dd>le <mark class="differs">chat &lt;b&gt;</mark> dort</dd>' in html
    assert '<dd>le <mark class="missed">chien</mark> dort</dd>' in html
    assert '<dd lang="zh-Hans">她在吃。</dd>' in html
    assert '<dd lang="zh-Hans">她<mark class="missed">正</mark>在吃。</dd>' in html


def test_chinese_pages_carry_the_characters_they_need_and_others_none() -> None:
    html = report(
        AlignmentSection("a", torch.eye(2), ["she", "eats"], ["她", "吃"]), TextSection("绿色", "apple")
    )
    font = re.search(r"url\(data:font/woff;base64,([^)]+)\)", html)
    assert font is not None
    data = base64.b64decode(font[1])
    assert {chr(code) for code in TTFont(io.BytesIO(data)).getBestCmap()} == set("她吃绿色")
    assert len(data) < 10_000
    assert "@font-face" not in report(TextSection("Déjà", "vu"))


def test_the_script_is_small_and_absent_where_nothing_moves() -> None:
    assert len(script()) < 60_000
    assert "<script" not in report(TextSection("a", "b"))


def test_a_report_is_written_whole_and_the_same_each_time(tmp_path: Path, everything: list[Section]) -> None:
    paths = [tmp_path / "new" / name for name in ("a.html", "b.HTM")]
    for path in paths:
        assert write_report(path, title="T", summary="s", sections=everything) == path
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(path.name for path in paths[0].parent.iterdir()) == ["a.html", "b.HTM"]


def test_reports_refuse_what_they_cannot_show(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"write_report: `path` has the ending '.txt' .* expected .html or .htm"
    ):
        write_report(tmp_path / "a.txt", title="", summary="", sections=[])
    with pytest.raises(
        ShapeError, match=r"TableSection: row 1 of 't' has 1 cells; expected 2, as many as the header"
    ):
        report(TableSection("t", ["a", "b"], [[1, 2], [3]]))
    with pytest.raises(
        DataError, match=r"FigureSection: `image` has the path missing\.png, which is not a file"
    ):
        report(FigureSection("f", "missing.png", "alt"))
    with pytest.raises(DataError, match="FigureSection: `image` of 'f' is neither a PNG nor an SVG"):
        report(FigureSection("f", b"GIF89a", "alt"))
    with pytest.raises(
        ShapeError, match=r"AlignmentSection: `weights` has shape \(2, 2\); expected \(T=1, S=2\)"
    ):
        report(AlignmentSection("a", torch.eye(2), ["a", "b"], ["x"]))
    with pytest.raises(DataError, match="AlignmentSection: `weights` has nan at"):
        report(AlignmentSection("a", [[float("nan")]], ["a"], ["x"]))

import json
import math
import re
import subprocess
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from fontTools.pens.areaPen import AreaPen
from fontTools.svgLib.path import parse_path
from fontTools.ttLib import TTFont
from pages import Page, Word, overlap, pixels
from PIL import Image

from regard.errors import ConfigError, DataError, ShapeError
from regard.shipped import find
from regard.viz import files, heatmap, letters, style
from regard.viz.heatmap import Panel, draw_alignment, draw_gallery, draw_heads
from regard.viz.sheet import Sheet
from regard.viz.weights import peak

CHINESE = "她正在吃一个绿色的苹果这们没看书认识河岸银行踢弹钢琴穿戴辆张件座位杯。，？"
WORDS = [f"{'word' * (i % 3)}{i}" for i in range(100)]


def weights(T: int, S: int) -> np.ndarray:
    scores = -((np.arange(T)[:, None] * S / T - np.arange(S)) ** 2) + np.sin(np.arange(T * S)).reshape(T, S)
    powers = np.exp(scores)
    return powers / powers.sum(axis=1, keepdims=True)


def touch(first: Word, second: Word) -> bool:
    """Whether two words, written at the same angle, touch."""
    angle = math.radians(first.turn)
    boxes = []
    for word in (first, second):
        right = word.x * math.cos(angle) - word.y * math.sin(angle)
        down = word.x * math.sin(angle) + word.y * math.cos(angle)
        left, top, end, bottom = word.ink
        boxes.append((right + left, down + top, right + end, down + bottom))
    return overlap(*boxes)


@pytest.mark.parametrize(
    ("T", "S"), [(1, 1), (3, 3), (14, 12), (20, 1), (1, 20), (45, 40), (70, 70), (300, 90)]
)
def test_no_word_is_cut_off_at_the_edge(T: int, S: int, sheets: list[Sheet]) -> None:
    source = [WORDS[i % 100] for i in range(S)]
    target = [WORDS[-i % 100] for i in range(T)]
    source[-1] = "unconstitutionally"
    draw_alignment(
        weights(T, S),
        source,
        target,
        title="A title that may be longer than the picture is wide",
        path="x.png",
    )
    page = Page(sheets[0])
    assert len(page.words()) > 3
    for word in page.words():
        left, top, right, bottom = word.box
        assert left >= 0, word.text
        assert top >= 0, word.text
        assert right <= page.width, word.text
        assert bottom <= page.height, word.text


@pytest.mark.parametrize("n", [3, 12, 24, 45, 70, 200])
def test_neighbouring_words_do_not_touch(n: int, sheets: list[Sheet]) -> None:
    words = [("Ångström", "gypsy", "a", "(Qy)")[i % 4] for i in range(n)]
    draw_alignment(weights(n, n), words, words, path="x.png")
    for side in ("source", "target"):
        written = Page(sheets[0]).words(side)
        assert len(written) == n or n > 100
        for first, second in pairwise(written):
            assert not touch(first, second), (side, first.text, second.text)


def test_short_words_are_level_and_long_ones_turned(sheets: list[Sheet]) -> None:
    draw_alignment(weights(6, 6), list("abcdef"), list("abcdef"), path="x.png")
    draw_alignment(weights(6, 6), [word * 9 for word in "abcdef"], list("abcdef"), path="x.png")
    level, turned = (Page(sheet).words("source") for sheet in sheets)
    assert {word.turn for word in level} == {0}
    assert {word.turn for word in turned} == {45}


def test_a_larger_weight_is_never_drawn_lighter(tmp_path: Path, sheets: list[Sheet]) -> None:
    array = weights(5, 7)
    source, target = list("abcdefg"), list("vwxyz")
    draw_alignment(array, source, target, path="x.png")
    page, image = Page(sheets[0]), pixels(sheets[0]).astype(float).mean(-1)
    centers_x = [word.middle[0] for word in page.words("source")]
    centers_y = [word.y for word in page.words("target")]
    shown = np.array([[image[round(y) - 6, round(x)] for x in centers_x] for y in centers_y])
    order = np.argsort(array, axis=None)
    assert (np.diff(shown.ravel()[order]) <= 0).all()
    assert shown.argmin() == array.argmax()
    assert shown.max() > 250  # white is zero


@pytest.mark.parametrize("ending", ["png", "svg", "PNG"])
def test_the_same_input_gives_the_same_bytes(tmp_path: Path, ending: str) -> None:
    first = draw_alignment(weights(4, 5), WORDS[:5], WORDS[:4], gold=[(0, 0)], path=tmp_path / f"a.{ending}")
    draw_alignment(weights(3, 2), ["été", "猫"], list("XYZ"), title="Other letters", path=tmp_path / "c.svg")
    second = draw_alignment(weights(4, 5), WORDS[:5], WORDS[:4], gold=[(0, 0)], path=tmp_path / f"b.{ending}")
    assert first.read_bytes() == second.read_bytes()


def test_png_has_twice_the_resolution_and_svg_has_no_date(tmp_path: Path) -> None:
    with Image.open(draw_alignment(weights(3, 3), WORDS[:3], WORDS[:3], path=tmp_path / "a.png")) as image:
        assert image.format == "PNG"
        assert image.info["dpi"] == pytest.approx((200, 200), abs=0.1)
    svg = draw_alignment(
        weights(3, 3), WORDS[:3], WORDS[:3], path=tmp_path / "new" / "folder" / "a.svg"
    ).read_text()
    assert svg.lstrip().startswith("<?xml")
    assert "date" not in svg
    assert (
        Page(svg).words("source")[0].text == WORDS[0]
    )  # outlines, and yet they can be searched and read out
    assert "<text" not in svg  # no font is needed where it is shown


def test_a_page_is_as_large_as_it_says_and_a_hundredth_of_an_inch_is_two_pixels() -> None:
    for hundredths in range(100, 1400, 53):
        sheet = Sheet(hundredths / 100, hundredths / 100 + 0.501)
        assert pixels(sheet).shape == (2 * hundredths + 102, 2 * hundredths, 3)
        assert 'width="' + f"{hundredths * 0.72:g}" + 'pt"' in sheet.svg()


def test_cells_have_equal_sharp_edges_and_lines_between_them(sheets: list[Sheet]) -> None:
    draw_alignment(torch.ones(3, 4) / 4, list("abcd"), list("xyz"), path="x.png")
    image, page = pixels(sheets[0]), Page(sheets[0])
    [left, right], [top, bottom] = (
        np.sort(np.unique(page.shapes("cells")[0].points[:, k]))[[0, -1]].astype(int) for k in (0, 1)
    )
    face = np.array(list(bytes.fromhex(style.WEIGHTS[128][1:])))
    line = np.array(list(bytes.fromhex(style.GRID[1:])))
    row = image[(top + bottom) // 2 - 20, left:right]
    cell = (right - left) // 4
    assert cell * 4 == right - left
    for k in range(1, 4):
        assert (row[k * cell] == line).all()
        assert (abs(row[k * cell - 1].astype(int) - face) <= 1).all()
        assert (abs(row[k * cell + 1].astype(int) - face) <= 1).all()


def test_svg_of_a_long_pair_stays_small(tmp_path: Path) -> None:
    path = draw_alignment(weights(70, 70), WORDS[:70], WORDS[:70], path=tmp_path / "a.svg")
    assert path.stat().st_size < 300_000


def test_a_map_of_many_cells_is_an_image_that_differs_by_one_shade_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shades, words = torch.rand(30, 40).numpy(), [str(number) for number in range(40)]
    drawn = []
    for most in (10_000, 1_000):
        monkeypatch.setattr(heatmap, "MANY", most)
        path = draw_alignment(shades, words, words[:30], path=tmp_path / f"{most}.png")
        drawn.append(np.asarray(Image.open(path).convert("RGB")).astype(int))
    assert abs(drawn[0] - drawn[1]).max() <= 1
    path = draw_alignment(shades, words, words[:30], path=tmp_path / "x.svg")
    assert "<image" in path.read_text()


def test_tensors_of_any_precision_are_drawn(tmp_path: Path) -> None:
    tensor = torch.tensor(weights(4, 4), dtype=torch.bfloat16, requires_grad=True)
    assert draw_alignment(tensor, WORDS[:4], WORDS[:4], path=tmp_path / "a.png").exists()


def test_signs_of_mathematics_and_white_space_are_words(sheets: list[Sheet]) -> None:
    words = ["$x^2$", "$5", "a_b", "\n", " ", "<unk>", "\\frac", "▁the", "Ġthe"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_alignment(weights(9, 9), words, words, title="$\\bad{$", path="x.png")
        assert pixels(sheets[0]).std() > 0
    assert [word.text for word in Page(sheets[0]).words("source")][:6] == [
        "$x^2$",
        "$5",
        "a_b",
        "↵",
        "␣",
        "<unk>",
    ]


def test_what_xml_cannot_say_is_still_drawn(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="No font has a glyph"):
        path = draw_alignment(weights(2, 2), ["a\x00", "\ud800"], ["\uffff", '"&<'], path=tmp_path / "a.svg")
    assert [word.text for word in Page(path.read_text(encoding="utf-8")).words("target")] == ["\ufffd", '"&<']


def test_very_long_words_are_shortened_in_the_middle(sheets: list[Sheet]) -> None:
    draw_alignment(weights(1, 1), ["a"], ["Donaudampfschifffahrtsgesellschaft"], path="x.png")
    [word] = Page(sheets[0]).words("target")
    assert word.text == "Donaudampfschiff…llschaft"[:17] + "lschaft"


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_every_chinese_character_has_a_glyph_without_system_fonts(tmp_path: Path, ending: str) -> None:
    words = list(CHINESE)
    n = len(words)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert draw_alignment(
            weights(n, n), words, words, title=CHINESE, path=tmp_path / f"a.{ending}"
        ).exists()


def test_the_test_above_would_see_a_missing_glyph(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"^No font has a glyph for '가': it is drawn as a box\.$"):
        draw_alignment(weights(1, 1), ["가"], ["a"], path=tmp_path / "a.png")


@pytest.fixture
def no_whole_font(monkeypatch: pytest.MonkeyPatch) -> None:
    letters.lay.cache_clear()
    monkeypatch.setattr(letters, "_whole_font", lambda: None)


def test_rare_characters_take_the_whole_font_where_it_is_installed() -> None:
    letters.lay.cache_clear()
    assert [glyph.file.stem for glyph in letters.lay("学學")[0]] == [
        "NotoSansSC-Subset",
        "NotoSansSC-Regular",
    ]


@pytest.mark.usefixtures("no_whole_font")
def test_without_it_a_rare_character_is_a_box_and_the_extra_is_named() -> None:
    whole = letters.font(letters.CHINESE).woff("學")
    with pytest.warns(UserWarning, match='a box; more of them come with the extra "chinese"'):
        [glyph], _ = letters.lay("學")
    assert glyph.number == 0
    assert len(whole) == len(letters.chinese_subset("學"))  # the character is not in our own


def test_our_font_has_every_character_that_a_shipped_model_or_the_grammar_writes() -> None:
    from grammar_vocabulary import vocabulary

    written = set("".join(vocabulary("zh")))
    for path in find.FOLDER.glob("*/*tokenizer.json"):
        written |= set("".join(json.loads(path.read_text(encoding="utf-8"))["pieces"]))
    rare = [letter for letter in written if letters.has_chinese(letter) and letters.is_rare(letter)]
    assert rare == ["𡡡"]  # a slip in the corpus; the whole font lacks it too


def test_latin_text_does_not_load_the_chinese_font() -> None:
    code = (
        "from regard.viz.letters import font, lay; lay('été Straße $'); read = font.cache_info().currsize; "
        "lay('苹果'); assert (read, font.cache_info().currsize) == (1, 2)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_outlines_widths_and_kerning_are_those_of_the_font_files() -> None:
    for path in (letters.LATIN, letters.BOLD, letters.CHINESE):
        ours, theirs = letters.font(path), TTFont(path)
        order, drawn = theirs.getGlyphOrder(), theirs.getGlyphSet()
        assert {code: order[number] for code, number in ours.glyphs.items() if number} == theirs.getBestCmap()
        for number in range(0, ours.count, 97):
            pen, right = AreaPen(drawn), AreaPen(drawn)
            drawn[order[number]].draw(right)
            parse_path(ours.outline(number), pen)
            assert pen.value == pytest.approx(-right.value, rel=1e-4, abs=1)  # y is downwards
            assert ours.advance(number) == drawn[order[number]].width
    assert letters.lay("AV")[1] < letters.lay("A")[1] + letters.lay("V")[1]
    assert letters.lay("e\u0301") == letters.lay("é")


def test_heads_share_their_words(sheets: list[Sheet]) -> None:
    array = np.stack([weights(5, 4)] * 6)
    draw_heads(array, WORDS[:4], WORDS[5:10], path="x.png")
    page = Page(sheets[0])
    assert len(page.words("source")) == 3 * 4
    assert len(page.words("target")) == 2 * 5
    assert [word.text for word in page.words("name")] == [f"head {h}" for h in range(1, 7)]


def test_a_gallery_wraps_after_its_columns(sheets: list[Sheet]) -> None:
    panels = [Panel(weights(4, 4), WORDS[:4], WORDS[:4], f"panel {i}", gold=[(0, 1)]) for i in range(5)]
    draw_gallery(panels, columns=2, title="five", path="x.png")
    places = [(word.x, word.y) for word in Page(sheets[0]).words("name")]
    assert len({x for x, _ in places}) == 2
    assert len({y for _, y in places}) == 3


def test_gold_links_are_outlined_at_source_and_target(sheets: list[Sheet]) -> None:
    draw_alignment(weights(3, 5), list("abcde"), list("xyz"), gold=[(4, 0), (4, 0)], path="x.png")
    page = Page(sheets[0])
    squares = page.shapes("gold")
    assert len(squares) == 2  # one link, one in the key
    assert {square.edge for square in squares} == {style.GOLD}
    x, y = page.words("source")[4].middle[0], page.words("target")[0].middle[1]
    (left, top), (right, bottom) = squares[0].points.min(0), squares[0].points.max(0)
    assert left < x < right
    assert top < y < bottom


def test_weights_that_do_not_fit_the_words_are_refused() -> None:
    message = (
        "draw_alignment: `weights` has shape (3, 4); expected (T=3, S=5), "
        "one row per target word and one column per source word."
    )
    with pytest.raises(ShapeError, match=f"^{re.escape(message)}$"):
        draw_alignment(torch.rand(3, 4), WORDS[:5], WORDS[:3], path="x.png")
    with pytest.raises(ShapeError, match="At least one word is needed on each side"):
        draw_alignment(torch.rand(0, 4), WORDS[:4], [], path="x.png")
    with pytest.raises(
        ShapeError, match=r"draw_heads: `weights` has shape \(3, 4\); expected \(H, T=3, S=4\)"
    ):
        draw_heads(torch.rand(3, 4), WORDS[:4], WORDS[:3], path="x.png")
    with pytest.raises(ShapeError, match=r"`names` has length 1; expected H=2"):
        draw_heads(torch.rand(2, 3, 4), WORDS[:4], WORDS[:3], names=["a"], path="x.png")


@pytest.mark.parametrize(("bad", "shown"), [(float("nan"), "nan"), (float("inf"), "inf"), (-0.5, "-0.5")])
def test_scores_and_not_numbers_are_refused(bad: float, shown: str) -> None:
    array = weights(3, 4)
    array[1, 2] = bad
    with pytest.raises(
        DataError, match=rf"draw_alignment: `weights` has {shown} at \(1, 2\); expected finite numbers"
    ):
        draw_alignment(array, WORDS[:4], WORDS[:3], path="x.png")


def test_other_arguments_that_cannot_be_drawn_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`path` has the ending '.pdf' \(a.pdf\); expected .png or .svg\."):
        draw_alignment(weights(3, 3), WORDS[:3], WORDS[:3], path=tmp_path / "a.pdf")
    with pytest.raises(ConfigError, match=r"`gold` has the link \(3, 0\); expected \(source, target\) below"):
        draw_alignment(weights(3, 3), WORDS[:3], WORDS[:3], gold=[(3, 0)], path="x.png")
    with pytest.raises(ConfigError, match="`panels` has length 0"):
        draw_gallery([], path="x.png")
    with pytest.raises(ConfigError, match="`columns` has the value 0; expected 1 or more"):
        draw_gallery([Panel(weights(3, 3), WORDS[:3], WORDS[:3])], columns=0, path="x.png")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_named_with_the_file_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    monkeypatch.setattr(files.storage, "aside", lambda path: gone / "hidden.png")
    with pytest.raises(FileNotFoundError) as caught:
        draw_alignment(weights(2, 2), ["a", "b"], ["c", "d"], path=tmp_path / "x.png")
    assert caught.value.filename == str(tmp_path / "x.png")


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"before")

    def fail(file: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(files.storage.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        draw_alignment(weights(3, 3), WORDS[:3], WORDS[:3], path=path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("largest", "top"), [(0.0, 1.0), (0.013, 0.02), (0.3, 0.5), (0.5, 0.5), (0.7, 1.0), (3.0, 3.0)]
)
def test_the_darkest_shade_is_a_round_number(largest: float, top: float) -> None:
    assert peak(torch.tensor([[0.0, largest]])) == top

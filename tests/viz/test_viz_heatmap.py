import json
import math
import re
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from regard.errors import ConfigError, DataError, ShapeError
from regard.shipped import find
from regard.viz import files, heatmap, style
from regard.viz.heatmap import Panel, draw_alignment, draw_gallery, draw_heads
from regard.viz.weights import peak

CHINESE = "她正在吃一个绿色的苹果这们没看书认识河岸银行踢弹钢琴穿戴辆张件座位杯。，？"
WORDS = [f"{'word' * (i % 3)}{i}" for i in range(100)]


def weights(T: int, S: int) -> np.ndarray:
    scores = -((np.arange(T)[:, None] * S / T - np.arange(S)) ** 2) + np.sin(np.arange(T * S)).reshape(T, S)
    powers = np.exp(scores)
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that would have been written."""
    made: list[Figure] = []
    monkeypatch.setattr(files, "save", lambda figure, path: made.append(figure) or path)
    return made


@pytest.fixture
def no_system_fonts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Only what comes with matplotlib, and what is registered from now on."""
    own = [
        font for font in font_manager.fontManager.ttflist if font.fname.startswith(matplotlib.get_data_path())
    ]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    style._register.cache_clear()
    yield
    style._register.cache_clear()


def texts(figure: Figure, gid: str | None = None) -> list[Text]:
    found = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    return [text for text in found if gid is None or text.get_gid() == gid]


def touch(first: Text, second: Text) -> bool:
    """Whether two words, written at the same angle, touch."""
    angle = math.radians(first.get_rotation())
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    canvas = FigureCanvasAgg(
        Figure(figsize=(1, 1), dpi=style.DPI)
    )  # a small one: the real page may be 5000 pixels
    boxes = []
    for text in (first, second):
        anchor = turn @ text.get_transform().transform(text.get_position())
        copy = Text(
            0,
            0,
            text.get_text(),
            fontproperties=text.get_fontproperties(),
            figure=canvas.figure,
            ha=text.get_ha(),
        )
        copy.set_verticalalignment("baseline")
        box = copy.get_window_extent(canvas.get_renderer())
        boxes.append(box.translated(*anchor))
    a, b = boxes
    return bool(a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1)


@pytest.mark.parametrize(
    ("T", "S"), [(1, 1), (3, 3), (14, 12), (20, 1), (1, 20), (45, 40), (70, 70), (300, 90)]
)
def test_no_word_is_cut_off_at_the_edge(T: int, S: int, figures: list[Figure]) -> None:
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
    renderer = FigureCanvasAgg(figures[0]).get_renderer()
    for text in texts(figures[0]):
        box, page = text.get_window_extent(renderer), figures[0].bbox
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1, text.get_text()
        assert page.y0 <= box.y0
        assert box.y1 <= page.y1, text.get_text()


@pytest.mark.parametrize("n", [3, 12, 24, 45, 70, 200])
def test_neighbouring_words_do_not_touch(n: int, figures: list[Figure]) -> None:
    words = [("Ångström", "gypsy", "a", "(Qy)")[i % 4] for i in range(n)]
    draw_alignment(weights(n, n), words, words, path="x.png")
    for side in ("source", "target"):
        written = texts(figures[0], side)
        assert len(written) == n or n > 100
        for first, second in pairwise(written):
            assert not touch(first, second), (side, first.get_text(), second.get_text())


def test_short_words_are_level_and_long_ones_turned(figures: list[Figure]) -> None:
    draw_alignment(weights(6, 6), list("abcdef"), list("abcdef"), path="x.png")
    draw_alignment(weights(6, 6), [word * 9 for word in "abcdef"], list("abcdef"), path="x.png")
    assert {text.get_rotation() for text in texts(figures[0], "source")} == {0}
    assert {text.get_rotation() for text in texts(figures[1], "source")} == {45}


def test_a_larger_weight_is_never_drawn_lighter(tmp_path: Path, figures: list[Figure]) -> None:
    array = weights(5, 7)
    source, target = list("abcdefg"), list("vwxyz")
    draw_alignment(array, source, target, path="x.png")
    canvas = FigureCanvasAgg(figures[0])
    canvas.draw()
    image = np.asarray(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("L"), dtype=float)
    centers_x = [
        text.get_transform().transform(text.get_position())[0] for text in texts(figures[0], "source")
    ]
    centers_y = [
        text.get_transform().transform(text.get_position())[1] for text in texts(figures[0], "target")
    ]
    shown = np.array([[image[round(image.shape[0] - y) - 6, round(x)] for x in centers_x] for y in centers_y])
    order = np.argsort(array, axis=None)
    assert (np.diff(shown.ravel()[order]) <= 0).all()
    assert shown.argmin() == array.argmax()
    assert shown.max() > 250  # white is zero


@pytest.mark.parametrize("ending", ["png", "svg", "PNG"])
def test_the_same_input_gives_the_same_bytes(tmp_path: Path, ending: str) -> None:
    first = draw_alignment(weights(4, 5), WORDS[:5], WORDS[:4], gold=[(0, 0)], path=tmp_path / f"a.{ending}")
    with matplotlib.rc_context({"font.size": 31, "axes.facecolor": "red", "svg.hashsalt": "other"}):
        second = draw_alignment(
            weights(4, 5), WORDS[:5], WORDS[:4], gold=[(0, 0)], path=tmp_path / f"b.{ending}"
        )
        assert matplotlib.rcParams["font.size"] == 31
    assert first.read_bytes() == second.read_bytes()


def test_png_has_twice_the_resolution_and_svg_has_no_date(tmp_path: Path) -> None:
    with Image.open(draw_alignment(weights(3, 3), WORDS[:3], WORDS[:3], path=tmp_path / "a.png")) as image:
        assert image.format == "PNG"
        assert image.info["dpi"] == pytest.approx((200, 200), abs=0.1)
    svg = draw_alignment(
        weights(3, 3), WORDS[:3], WORDS[:3], path=tmp_path / "new" / "folder" / "a.svg"
    ).read_text()
    assert svg.lstrip().startswith("<?xml")
    assert "<dc:date>" not in svg


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


def test_signs_of_mathematics_and_white_space_are_words(figures: list[Figure]) -> None:
    words = ["$x^2$", "$5", "a_b", "\n", " ", "<unk>", "\\frac", "▁the", "Ġthe"]
    draw_alignment(weights(9, 9), words, words, title="$\\bad{$", path="x.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FigureCanvasAgg(figures[0]).draw()
    assert [text.get_text() for text in texts(figures[0], "source")][:5] == ["$x^2$", "$5", "a_b", "↵", "␣"]


def test_very_long_words_are_shortened_in_the_middle(figures: list[Figure]) -> None:
    draw_alignment(weights(1, 1), ["a"], ["Donaudampfschifffahrtsgesellschaft"], path="x.png")
    assert [text.get_text() for text in texts(figures[0], "target")] == [
        "Donaudampfschiff…llschaft"[:17] + "lschaft"
    ]


@pytest.mark.usefixtures("no_system_fonts")
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_every_chinese_character_has_a_glyph_without_system_fonts(tmp_path: Path, ending: str) -> None:
    words = list(CHINESE)
    n = len(words)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert draw_alignment(
            weights(n, n), words, words, title=CHINESE, path=tmp_path / f"a.{ending}"
        ).exists()


@pytest.mark.usefixtures("no_system_fonts")
def test_the_test_above_would_see_a_missing_glyph(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"Glyph .* missing"):
        draw_alignment(weights(1, 1), ["가"], ["a"], path=tmp_path / "a.png")


def test_rare_characters_take_the_whole_font_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert style.font_families(["學校"]) == [style.LATIN, style.CHINESE, style.RARE]
    whole = style.chinese_subset("學")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert style.font_families(["學校"]) == [style.LATIN, style.CHINESE]
    assert len(whole) > len(style.chinese_subset("學"))  # the character is not in our own


def test_our_font_has_every_character_that_a_shipped_model_or_the_grammar_writes() -> None:
    from grammar_vocabulary import vocabulary

    written = set("".join(vocabulary("zh")))
    for path in find.FOLDER.glob("*/*tokenizer.json"):
        written |= set("".join(json.loads(path.read_text(encoding="utf-8"))["pieces"]))
    rare = [letter for letter in written if style.has_chinese(letter) and style._is_rare(letter)]
    assert rare == ["𡡡"]  # a slip in the corpus; the whole font lacks it too


def test_latin_text_does_not_load_the_chinese_font() -> None:
    assert style.font_families(["été", "Straße", "$"]) == [style.LATIN]
    assert style.font_families(["apple", "苹果"]) == [style.LATIN, style.CHINESE]


def test_heads_share_their_words(figures: list[Figure]) -> None:
    array = np.stack([weights(5, 4)] * 6)
    draw_heads(array, WORDS[:4], WORDS[5:10], path="x.png")
    assert len(texts(figures[0], "source")) == 3 * 4
    assert len(texts(figures[0], "target")) == 2 * 5
    assert [text.get_text() for text in texts(figures[0], "name")] == [f"head {h}" for h in range(1, 7)]


def test_a_gallery_wraps_after_its_columns(figures: list[Figure]) -> None:
    panels = [Panel(weights(4, 4), WORDS[:4], WORDS[:4], f"panel {i}", gold=[(0, 1)]) for i in range(5)]
    draw_gallery(panels, columns=2, title="five", path="x.png")
    places = [text.get_position() for text in texts(figures[0], "name")]
    assert len({round(x, 3) for x, _ in places}) == 2
    assert len({round(y, 3) for _, y in places}) == 3


def test_gold_links_are_outlined_at_source_and_target(figures: list[Figure]) -> None:
    draw_alignment(weights(3, 5), list("abcde"), list("xyz"), gold=[(4, 0), (4, 0)], path="x.png")
    squares = [
        patch
        for patch in figures[0].axes[0].patches
        if matplotlib.colors.to_hex(patch.get_edgecolor()) == style.GOLD
    ]
    assert len(squares) == 2  # one link, one in the key
    x = texts(figures[0], "source")[4].get_position()[0]
    assert squares[0].get_x() < x < squares[0].get_x() + squares[0].get_width()


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

    def fail(figure: Figure, file: BinaryIO, **_: object) -> None:
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        draw_alignment(weights(3, 3), WORDS[:3], WORDS[:3], path=path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("largest", "top"), [(0.0, 1.0), (0.013, 0.02), (0.3, 0.5), (0.5, 0.5), (0.7, 1.0), (3.0, 3.0)]
)
def test_the_darkest_shade_is_a_round_number(largest: float, top: float) -> None:
    assert peak(np.array([[0.0, largest]])) == top

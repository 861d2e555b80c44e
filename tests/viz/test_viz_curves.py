import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from pages import Page, overlap
from PIL import Image
from seeds import offset_seed

from regard.errors import ConfigError, DataError, ShapeError
from regard.viz import curves
from regard.viz.axes import log_ticks, numbers, ticks
from regard.viz.curves import draw_lengths, draw_training, spread
from regard.viz.sheet import DPI, Sheet

LENGTHS = {
    "RNNsearch": [(1, 10, 28.0), (11, 20, 27.0), (21, math.inf, 26.5)],
    "local-p": [(1, 10, 27.8), (11, 20, 26.9), (21, math.inf, 26.4)],
    "without attention": [(1, 10, 26.0), (11, 20, 20.0), (21, math.inf, 9.0)],
}


def test_each_line_carries_its_name_and_names_do_not_touch(sheets: list[Sheet]) -> None:
    draw_lengths(LENGTHS, "x.png")
    page = Page(sheets[0])
    names = page.words("name")
    assert [word.text for word in names] == list(LENGTHS)
    assert all(word.box[0] >= 0 and word.box[2] <= page.width for word in names)
    assert not any(overlap(a.box, b.box) for i, a in enumerate(names) for b in names[:i])
    assert [word.text for word in page.words("x")] == ["1–10", "11–20", "≥ 21"]


@pytest.mark.parametrize("count", [7, 8, 21, 60])
@pytest.mark.parametrize("same", [True, False], ids=["at one height", "apart"])
def test_the_names_of_many_lines_stay_inside_the_picture_and_apart(
    sheets: list[Sheet], count: int, same: bool
) -> None:
    values = [0.0 if same else float(i) for i in range(count)]
    draw_lengths({f"variant {i}": [(1, 10, y), (11, 20, y)] for i, y in enumerate(values)}, "x.png")
    draw_training({f"variant {i}": ([10, 20], [y + 1, y]) for i, y in enumerate(values)}, "x.png")
    for page in map(Page, sheets):
        names = page.words("name")
        assert len(names) == count
        assert all(word.box[1] >= 0 and word.box[3] <= page.height for word in names)
        assert all(word.box[2] <= page.width for word in names)
        lines = sorted(word.y for word in names)
        assert min(b - a for a, b in pairwise(lines)) > 0.99 * curves.GAP * DPI


def test_lines_of_one_colour_differ_in_their_dashes_and_names_show_them(sheets: list[Sheet]) -> None:
    draw_training({f"variant {i}": ([10, 20], [2.0, float(i)]) for i in range(21)}, "x.png")
    page = Page(sheets[0])
    lines = [(line.edge, line.dash) for line in reversed(page.shapes("line"))]  # the first lies on top
    assert len(set(lines)) == 21
    assert [(line.edge, line.dash) for line in page.shapes("sample")] == lines


def test_a_run_of_one_point_is_seen(sheets: list[Sheet]) -> None:
    draw_training({"a": ([8], [2.9])}, "x.png")
    page = Page(sheets[0])
    [dot] = page.shapes("dot")
    zero, *_, last = page.words("x")
    assert (zero.text, last.text) == ("0", "8")
    assert dot.points[0, 0] == pytest.approx(last.middle[0], abs=1)


def test_models_with_different_bins_stand_at_their_middles(sheets: list[Sheet]) -> None:
    draw_lengths({"a": [(1, 9, 5.0)], "b": [(2, 4, 6.0), (10, 20, 7.0)]}, "x.png")
    page = Page(sheets[0])
    five, fifteen = (next(w.middle[0] for w in page.words("x") if w.text == text) for text in ("5", "15"))
    places = [
        [5 + 10 * (x - five) / (fifteen - five) for x, _ in line.points] for line in page.shapes("line")
    ]
    assert places[::-1] == [pytest.approx([5.0], abs=0.05), pytest.approx([3.0, 15.0], abs=0.05)]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_curves_are_the_same_each_time(tmp_path: Path, ending: str) -> None:
    first, second = (draw_lengths(LENGTHS, tmp_path / f"{name}.{ending}") for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_long_noisy_runs_are_small_and_follow_their_mean(tmp_path: Path, sheets: list[Sheet]) -> None:
    steps = np.arange(100_000)
    noise = np.random.default_rng(offset_seed(0)).normal(0, 0.3, len(steps))
    losses = 5 - steps / 25_000 + noise
    draw_training({"run": (torch.tensor(steps), torch.tensor(losses))}, "x.png")
    page = Page(sheets[0])
    [line] = page.shapes("line")
    assert len(line.points) <= curves.POINTS
    across, up = page.words("x"), page.words("y")
    x, y = (
        np.interp(
            line.points[:, k],
            *zip(*sorted((place(w), float(w.text.replace(" ", ""))) for w in marks), strict=True),
        )
        for k, (marks, place) in enumerate([(across, lambda w: w.middle[0]), (up, lambda w: w.middle[1])])
    )
    inside = line.points[:, 0] <= max(word.middle[0] for word in across)
    assert np.abs(y - (5 - x / 25_000))[inside].max() < 0.15


def test_a_run_that_diverged_is_drawn_as_far_as_it_goes(tmp_path: Path) -> None:
    path = draw_training(
        {"run": ([1, 2, 3], [2.0, 1.0, math.nan]), "one": ([1], [1.0])}, tmp_path / "a.png", log=True
    )
    with Image.open(path) as image:
        assert image.width > 500


def test_spread_moves_places_apart_and_keeps_their_order() -> None:
    moved = spread([1.0, 5.0, 1.1, 1.05], gap=0.5)
    assert moved == pytest.approx([0.55, 5.0, 1.55, 1.05])
    assert spread([], gap=1.0) == []
    assert spread([0.0, 0.1, 5.0, 5.0], gap=0.5, within=(0.0, 5.0)) == pytest.approx([0.0, 0.5, 4.5, 5.0])


def test_curves_refuse_what_they_cannot_draw() -> None:
    with pytest.raises(ConfigError, match="`models` has no bins to draw"):
        draw_lengths({"a": []}, "x.png")
    with pytest.raises(DataError, match=r"`models` has the bin \(1, 10, nan\) for 'a'; expected"):
        draw_lengths({"a": [(1, 10, math.nan)]}, "x.png")
    with pytest.raises(
        ShapeError, match=r"'a' has steps of shape \(2,\) and losses of shape \(1,\); expected"
    ):
        draw_training({"a": ([1, 2], [1.0])}, "x.png")
    with pytest.raises(DataError, match="'a' has no finite loss"):
        draw_training({"a": ([1], [math.nan])}, "x.png")
    with pytest.raises(ConfigError, match="`runs` has length 0"):
        draw_training({}, "x.png")
    with pytest.raises(ConfigError, match="a loss is not positive; expected log=False"):
        draw_training({"a": ([1], [-1.0])}, "x.png", log=True)
    with pytest.raises(ConfigError, match=r"expected \.png or \.svg"):
        draw_lengths(LENGTHS, "x.gif")


def test_drawing_loads_no_package_that_draws() -> None:
    code = (
        "import sys, regard.viz.heatmap, regard.viz.curves, regard.viz.report; "
        "assert not {'matplotlib', 'fontTools', 'zhplot'} & set(sys.modules); "
        "bad = [m for m in sys.modules if m.startswith(('regard.models', 'regard.tasks', 'regard.train'))]; "
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("low", "high", "most", "whole", "expected"),
    [
        (0, 28, 6, False, [0, 5, 10, 15, 20, 25, 30]),
        (-2, 0.5, 6, False, [-2, -1.5, -1, -0.5, 0, 0.5]),
        (0, 0.3, 6, False, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]),
        (0, 12, 5, True, [0, 5, 10, 15]),
        (0, 3, 8, True, [0, 1, 2, 3]),
        (0, 20_000, 6, True, [0, 5000, 10_000, 15_000, 20_000]),
        (4, 4, 6, True, [4]),
    ],
)
def test_ticks_are_round_and_cover_their_range(low, high, most, whole, expected) -> None:
    assert ticks(low, high, most, whole=whole) == pytest.approx(expected)


def test_logarithmic_ticks_are_few_and_names_have_equal_decimals() -> None:
    assert log_ticks((0.3, 30), (1, 2, 5)) == pytest.approx([0.5, 1, 2, 5, 10, 20])
    assert log_ticks((1e-6, 1e3), (1, 2, 5)) == pytest.approx([10.0**k for k in range(-6, 4)])
    assert len(log_ticks((1e-30, 1e30))) <= 12
    assert log_ticks((64, 1024), base=2) == [64, 128, 256, 512, 1024]
    assert list(numbers([-0.5, 0, 12_000]).values()) == ["−0.5", "0.0", "12 000.0"]

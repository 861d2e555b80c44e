import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image
from seeds import offset_seed

from regard.errors import ConfigError, DataError, ShapeError
from regard.viz import curves, files
from regard.viz.curves import draw_lengths, draw_training, spread

LENGTHS = {
    "RNNsearch": [(1, 10, 28.0), (11, 20, 27.0), (21, math.inf, 26.5)],
    "local-p": [(1, 10, 27.8), (11, 20, 26.9), (21, math.inf, 26.4)],
    "without attention": [(1, 10, 26.0), (11, 20, 20.0), (21, math.inf, 9.0)],
}


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    made: list[Figure] = []
    monkeypatch.setattr(files, "save", lambda figure, path: made.append(figure) or path)
    return made


def names(figure: Figure) -> dict[str, Text]:
    return {text.get_text(): text for text in figure.findobj(Text) if text.get_gid() == "name"}


def test_each_line_carries_its_name_and_names_do_not_touch(figures: list[Figure]) -> None:
    draw_lengths(LENGTHS, "x.png", title="Quality")
    shown = names(figures[0])
    assert list(shown) == list(LENGTHS)
    renderer = FigureCanvasAgg(figures[0]).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in shown.values()]
    assert all(figures[0].bbox.x0 <= box.x0 and box.x1 <= figures[0].bbox.x1 for box in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert [text.get_text() for text in figures[0].axes[0].get_xticklabels()] == ["1–10", "11–20", "≥ 21"]


@pytest.mark.parametrize("count", [7, 8, 21, 60])
@pytest.mark.parametrize("same", [True, False], ids=["at one height", "apart"])
def test_the_names_of_many_lines_stay_inside_the_picture_and_apart(
    figures: list[Figure], count: int, same: bool
) -> None:
    values = [0.0 if same else float(i) for i in range(count)]
    draw_lengths({f"variant {i}": [(1, 10, y), (11, 20, y)] for i, y in enumerate(values)}, "x.png")
    draw_training({f"variant {i}": ([10, 20], [y + 1, y]) for i, y in enumerate(values)}, "x.png")
    for figure in figures:
        renderer = FigureCanvasAgg(figure).get_renderer()
        boxes = [text.get_window_extent(renderer) for text in names(figure).values()]
        assert len(boxes) == count
        assert all(figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1 for box in boxes)
        assert all(box.x1 <= figure.bbox.x1 for box in boxes)
        middles = sorted((box.y0 + box.y1) / 2 for box in boxes)
        assert min(b - a for a, b in pairwise(middles)) > 0.99 * curves.GAP * figure.dpi


def test_lines_of_one_colour_differ_in_their_dashes_and_names_show_them(figures: list[Figure]) -> None:
    draw_training({f"variant {i}": ([10, 20], [2.0, float(i)]) for i in range(21)}, "x.png")
    drawn = [(line.get_color(), line.get_linestyle(), line.get_gid()) for line in figures[0].axes[0].lines]
    lines = [look[:2] for look in drawn if look[2] != "sample"]
    assert len(set(lines)) == 21
    assert [look[:2] for look in drawn if look[2] == "sample"] == lines


def test_a_run_of_one_point_is_seen(figures: list[Figure]) -> None:
    draw_training({"a": ([8], [2.9])}, "x.png")
    [line] = figures[0].axes[0].get_lines()
    assert line.get_marker() == "o"
    assert figures[0].axes[0].get_xlim() == (0, 8)


def test_models_with_different_bins_stand_at_their_middles(figures: list[Figure]) -> None:
    draw_lengths({"a": [(1, 9, 5.0)], "b": [(2, 4, 6.0), (10, 20, 7.0)]}, "x.png")
    lines = figures[0].axes[0].get_lines()
    assert [line.get_xdata().tolist() for line in lines] == [[5.0], [3.0, 15.0]]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_curves_are_the_same_each_time(tmp_path: Path, ending: str) -> None:
    first, second = (draw_lengths(LENGTHS, tmp_path / f"{name}.{ending}") for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_long_noisy_runs_are_small_and_follow_their_mean(tmp_path: Path, figures: list[Figure]) -> None:
    steps = np.arange(100_000)
    noise = np.random.default_rng(offset_seed(0)).normal(0, 0.3, len(steps))
    losses = 5 - steps / 25_000 + noise
    draw_training({"run": (torch.tensor(steps), torch.tensor(losses))}, "x.png")
    x, y = figures[0].axes[0].get_lines()[0].get_data()
    assert len(x) <= curves.POINTS
    assert np.abs(np.asarray(y) - (5 - np.asarray(x) / 25_000)).max() < 0.1


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


def test_drawing_does_not_load_pyplot() -> None:
    code = (
        "import sys, regard.viz.heatmap, regard.viz.curves, regard.viz.report; "
        "assert 'matplotlib.pyplot' not in sys.modules and 'zhplot' not in sys.modules; "
        "bad = [m for m in sys.modules if m.startswith(('regard.models', 'regard.tasks', 'regard.train'))]; "
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

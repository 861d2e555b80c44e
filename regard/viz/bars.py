"""Bars: one value a name, the mean of several runs with each run as a point on it; bars begin at zero."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from regard.errors import ConfigError, DataError
from regard.viz import style
from regard.viz.curves import ROUND, TEXT
from regard.viz.files import draw
from regard.viz.sheet import Sheet, Title

LENGTH = 4.2  # inches of the longest bar
ROW, THICK = 0.27, 0.62  # inches from bar to bar; a bar's share of them
EDGE, BELOW, GAP = 0.14, 0.5, 0.12


def draw_bars(
    values: Mapping[str, Sequence[float]],
    path: str | Path,
    *,
    title: str | None = None,
    xlabel: str = "",
    decimals: int = 2,
) -> Path:
    """Draw a bar for each name through the mean of its values, in the given order; the mean stands behind."""
    _check(values)
    words = [title or "", xlabel, *values]
    return draw("draw_bars", path, words, lambda: _compose(values, title or "", xlabel, decimals))


def _compose(values: Mapping[str, Sequence[float]], text: str, xlabel: str, decimals: int) -> Sheet:
    means = [sum(runs) / len(runs) for runs in values.values()]
    numbers = [f"{mean:.{decimals}f}".replace("-", "−") for mean in means]
    left = EDGE + style.width(values, TEXT) + GAP
    width = left + LENGTH + style.width(numbers, TEXT) + GAP + EDGE
    title = Title.fit(text, width - 2 * EDGE, EDGE)
    above = EDGE + (title.height + 0.1 if title.lines else 0.0)
    body = ROW * len(values)
    sheet = Sheet(width, BELOW + body + above)
    title.write(sheet)
    axes = sheet.box(left, above, LENGTH, body)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=style.GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=TEXT, pad=5)
    axes.tick_params(axis="y", labelcolor=style.INK)
    axes.barh(range(len(means)), means, height=THICK, color=style.LINES[0], alpha=0.85, linewidth=0)
    for row, (runs, number) in enumerate(zip(values.values(), numbers, strict=True)):
        if len(runs) > 1:
            _points(axes, row, runs)
        axes.annotate(
            number,
            (1.0, row),
            (8, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            size=TEXT,
        )
    axes.set(xlim=_limits(values), ylim=(len(values) - 0.5, -0.5))
    axes.set_yticks(range(len(values)), list(values))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.set_xlabel(xlabel, fontsize=TEXT, labelpad=4)
    return sheet


def _points(axes: Axes, row: int, runs: Sequence[float]) -> None:
    """Each run as a point, and a line from the least to the largest."""
    axes.plot([min(runs), max(runs)], [row, row], color=style.GOLD, linewidth=1.4, zorder=3)
    axes.plot(
        runs,
        [row] * len(runs),
        linestyle="",
        marker="o",
        markersize=4.5,
        color=style.GOLD,
        markeredgecolor="white",
        markeredgewidth=0.7,
        zorder=4,
        clip_on=False,
    )


def _limits(values: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    every = [value for runs in values.values() for value in runs]
    low, high = min(0.0, *every), max(0.0, *every)
    if low == high:  # nothing but zeros
        return 0.0, 1.0
    ticks = MaxNLocator(6, steps=ROUND).tick_values(low, high)
    return ticks[0], ticks[-1]


def _check(values: Mapping[str, Sequence[float]]) -> None:
    if not values or not all(len(runs) for runs in values.values()):
        raise ConfigError(
            "draw_bars: `values` has nothing to draw; expected at least one value for each name."
        )
    for name, runs in values.items():
        if not all(map(math.isfinite, runs)):
            raise DataError(f"draw_bars: `values` has {list(runs)} for '{name}'; expected finite numbers.")

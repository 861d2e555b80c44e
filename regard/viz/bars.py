"""Bars: one value a name, the mean of several runs with each run as a point on it; bars begin at zero."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from regard.errors import ConfigError, DataError
from regard.viz import style
from regard.viz.curves import ROUND, TEXT, TITLE
from regard.viz.files import check_ending, save

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
    path = check_ending("draw_bars", path)
    _check(values)
    means = {name: sum(runs) / len(runs) for name, runs in values.items()}
    texts = [f"{mean:.{decimals}f}".replace("-", "−") for mean in means.values()]
    with style.look([title or "", xlabel, *values]):
        figure, place = _frame(list(values), texts, title or "")
        axes = figure.add_axes(place)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x", color=style.GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(length=0, labelsize=TEXT, pad=5)
        axes.tick_params(axis="y", labelcolor=style.INK)
        rows = range(len(values))
        axes.barh(rows, list(means.values()), height=THICK, color=style.LINES[0], alpha=0.85, linewidth=0)
        for row, runs in zip(rows, values.values(), strict=True):
            if len(runs) > 1:
                _points(axes, row, runs)
        low, high = _limits(values)
        axes.set_xlim(low, high)
        axes.set_ylim(len(values) - 0.5, -0.5)
        axes.set_yticks(rows, list(values))
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
        axes.set_xlabel(xlabel, fontsize=TEXT, labelpad=4)
        for row, text in zip(rows, texts, strict=True):
            axes.annotate(
                text,
                (1.0, row),
                (8, 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                va="center",
                size=TEXT,
            )
        return save(figure, path)


def _points(axes: object, row: int, runs: Sequence[float]) -> None:
    """Each run as a point, and a line from the least to the largest."""
    axes.plot([min(runs), max(runs)], [row, row], color=style.GOLD, linewidth=1.4, zorder=3)  # type: ignore[attr-defined]
    axes.plot(  # type: ignore[attr-defined]
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


def _frame(
    names: Sequence[str], texts: Sequence[str], title: str
) -> tuple[Figure, tuple[float, float, float, float]]:
    """A figure, and where its axes stand in it; all measures in inches until here."""
    left = EDGE + style.width(names, TEXT) + GAP
    width = left + LENGTH + style.width(texts, TEXT) + GAP + EDGE
    lines = style.wrap(title, TITLE, width - 2 * EDGE)
    above = EDGE + (len(lines) * TITLE * 1.3 / 72 + 0.1 if lines else 0.0)
    body = ROW * len(names)
    height = BELOW + body + above
    figure = Figure(figsize=(width, height), dpi=style.DPI)
    for i, line in enumerate(lines):
        baseline = EDGE + (i + 0.8) * TITLE * 1.3 / 72
        figure.text(EDGE / width, 1 - baseline / height, line, size=TITLE, va="baseline")
    return figure, (left / width, BELOW / height, LENGTH / width, body / height)


def _check(values: Mapping[str, Sequence[float]]) -> None:
    if not values or not all(len(runs) for runs in values.values()):
        raise ConfigError(
            "draw_bars: `values` has nothing to draw; expected at least one value for each name."
        )
    for name, runs in values.items():
        if not all(map(math.isfinite, runs)):
            raise DataError(f"draw_bars: `values` has {list(runs)} for '{name}'; expected finite numbers.")

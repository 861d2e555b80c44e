"""Horizontal bars: the mean of several runs per name, each run as a point; bars start at zero."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.errors import ConfigError, DataError
from regard.viz import style
from regard.viz.axes import TEXT, Axes, ticks
from regard.viz.axes import numbers as written
from regard.viz.sheet import Sheet

LENGTH = 4.2  # inches of the longest bar
ROW, THICK = 0.27, 0.62  # inches between bars; a bar's share of that
EDGE, BELOW, GAP = 0.14, 0.5, 0.12
FACE = "#306da4"  # the first of LINES, slightly lighter


def draw_bars(
    values: Mapping[str, Sequence[float]],
    path: str | Path,
    *,
    xlabel: str = "",
    decimals: int = 2,
) -> Path:
    """Draw the mean of each name's values as a bar, in the given order, followed by its number."""
    _check(values)
    means = [sum(runs) / len(runs) for runs in values.values()]
    numbers = [f"{mean:.{decimals}f}".replace("-", "−") for mean in means]
    left = EDGE + style.width(values, TEXT) + GAP
    body = ROW * len(values)
    sheet = Sheet(left + LENGTH + style.width(numbers, TEXT) + GAP + EDGE, BELOW + body + EDGE)
    places = _ticks(values)
    axes = Axes(sheet, (left, EDGE, LENGTH, body), (places[0], places[-1]), (len(values) - 0.5, -0.5))
    axes.lines(x=places)
    for row, (mean, number) in enumerate(zip(means, numbers, strict=True)):
        (x, y), (end, low) = axes.at(min(mean, 0), row - THICK / 2), axes.at(max(mean, 0), row + THICK / 2)
        sheet.rect((x, y, end - x, low - y), fill=FACE, kind="bar")
        sheet.write(left + LENGTH + 8 / 72, EDGE + ROW * (row + 0.5), number, size=TEXT, middle=True)
    axes.lines(y=axes.up[:1], edge=style.RULE)
    for row, runs in enumerate(values.values()):
        if len(runs) > 1:  # each run as a point, on a line from the smallest to the largest
            sheet.draw([[axes.at(min(runs), row), axes.at(max(runs), row)]], edge=style.GOLD, line=1.4)
            for run in runs:
                sheet.dot(axes.at(run, row), 4.5, style.GOLD, edge="#ffffff", line=0.7)
    axes.name_y(dict(enumerate(values)), color=style.INK)
    axes.name_x(written(places), xlabel)
    return sheet.save("draw_bars", path)


def _ticks(values: Mapping[str, Sequence[float]]) -> list[float]:
    """Round numbers that cover all values and zero."""
    every = [value for runs in values.values() for value in runs]
    low, high = min(0.0, *every), max(0.0, *every)
    return ticks(low, high) if low < high else ticks(0.0, 1.0)


def _check(values: Mapping[str, Sequence[float]]) -> None:
    if not values or not all(len(runs) for runs in values.values()):
        raise ConfigError(
            "draw_bars: `values` has nothing to draw; expected at least one value for each name."
        )
    for name, runs in values.items():
        if not all(map(math.isfinite, runs)):
            raise DataError(f"draw_bars: `values` has {list(runs)} for '{name}'; expected finite numbers.")

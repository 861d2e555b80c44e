"""Curves: quality by sentence length, and loss by step; each line carries its name at its end.

Figure 2 of Bahdanau et al. Neural machine translation by jointly learning to align and translate. 2014.
https://arxiv.org/abs/1409.0473
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from regard.errors import ConfigError, DataError, ShapeError
from regard.viz import style
from regard.viz.files import draw
from regard.viz.sheet import Sheet, Title
from regard.viz.weights import Array, Weights, to_array

Bin = tuple[float, float, float]  # shortest, longest, value

PLOT = (4.6, 2.7)  # inches of the area between the axes
LEFT, BELOW, ABOVE, EDGE = 0.55, 0.58, 0.46, 0.14
TEXT = 9.0  # points
GAP = TEXT * 1.2 / 72  # inches from name to name
DASHES = ("-", "--", ":", "-.")  # where there are more lines than colours
SAMPLE = 0.35  # inches of the line before its name, where there are so many
ROUND = [1, 2, 2.5, 5, 10]  # steps between ticks
POINTS = 400  # more are averaged: a line of 400 points is as wide as the picture has pixels to show


def draw_lengths(
    models: Mapping[str, Sequence[Bin]],
    path: str | Path,
    *,
    title: str | None = None,
    xlabel: str = "sentence length (words)",
    ylabel: str = "BLEU",
) -> Path:
    """Draw one line per model through its (shortest, longest, value) bins; `math.inf` opens the last one."""
    _check_lengths(models)

    def compose() -> Sheet:
        sheet, axes = _chart(list(models), title, xlabel, ylabel)
        shared = len({tuple(bin[:2] for bin in bins) for bins in models.values()}) == 1
        lines = {name: _points(bins, by_index=shared) for name, bins in models.items()}
        ends = _draw_lines(axes, lines)
        if shared:
            _name_bins(axes, next(iter(models.values())))
        else:
            axes.margins(x=0.04)
        top = max(max(y) for _, y in lines.values())
        axes.set_ylim(0, MaxNLocator(6, steps=ROUND).tick_values(0, max(top, 1.0))[-1])
        _name_lines(sheet, axes, ends)
        return sheet

    return draw("draw_lengths", path, [title or "", xlabel, ylabel, *models], compose)


def draw_training(
    runs: Mapping[str, tuple[Sequence[float] | Weights, Sequence[float] | Weights]],
    path: str | Path,
    *,
    title: str | None = None,
    xlabel: str = "step",
    ylabel: str = "loss",
    log: bool = False,
) -> Path:
    """Draw (steps, losses) of each run; long ones as a running mean over the pale range of their values."""
    lines = {name: _check_run(name, *run) for name, run in runs.items()}
    if not lines:
        raise ConfigError("draw_training: `runs` has length 0; expected at least one run.")
    if log and any(np.nanmin(losses) <= 0 for _, losses in lines.values()):
        raise ConfigError(
            "draw_training: `log` has the value True and a loss is not positive; expected log=False."
        )

    def compose() -> Sheet:
        sheet, axes = _chart(list(runs), title, xlabel, ylabel)
        if log:
            _log_scale(axes, subs=(1.0, 2.0, 5.0))
        ends = {
            name: _draw_run(axes, steps, losses, i) for i, (name, (steps, losses)) in enumerate(lines.items())
        }
        if not log and all(np.nanmin(losses) >= 0 for _, losses in lines.values()):
            axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
        first, last = (f(f(steps) for steps, _ in lines.values()) for f in (min, max))
        if first < last or first > 0:
            axes.set_xlim(0 if 0 < first < last * 0.1 or first == last else first, last)
        _name_lines(sheet, axes, ends)
        return sheet

    return draw("draw_training", path, [title or "", xlabel, ylabel, *runs], compose)


def draw_growth(
    series: Mapping[str, tuple[Sequence[float] | Weights, Sequence[float] | Weights]],
    path: str | Path,
    *,
    title: str | None = None,
    xlabel: str = "length",
    ylabel: str = "",
) -> Path:
    """Draw (sizes, costs) of each name with both axes logarithmic, so that a power is a straight line."""
    lines = {name: _check_run(name, *one, owner="draw_growth") for name, one in series.items()}
    if not lines or any(np.nanmin(values) <= 0 for line in lines.values() for values in line):
        raise ConfigError(
            "draw_growth: `series` has nothing or a value of 0 or less; expected positive numbers."
        )

    def compose() -> Sheet:
        sheet, axes = _chart(list(series), title, xlabel, ylabel)
        axes.set_xscale("log", base=2)
        _log_scale(axes, subs=(1.0,))
        ends = _draw_lines(axes, lines)
        axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
        _name_lines(sheet, axes, ends)
        return sheet

    return draw("draw_growth", path, [title or "", xlabel, ylabel, *series], compose)


def _check_lengths(models: Mapping[str, Sequence[Bin]]) -> None:
    if not models or not all(models.values()):
        raise ConfigError(
            "draw_lengths: `models` has no bins to draw; expected at least one bin for each model."
        )
    for name, bins in models.items():
        for low, high, value in bins:
            if not (math.isfinite(value) and low <= high):
                raise DataError(
                    f"draw_lengths: `models` has the bin ({low:g}, {high:g}, {value:g}) for '{name}'; "
                    "expected (shortest, longest, value) with a finite value."
                )


def _check_run(
    name: str,
    steps: Sequence[float] | Weights,
    losses: Sequence[float] | Weights,
    owner: str = "draw_training",
) -> tuple[Array, Array]:
    x, y = to_array(steps), to_array(losses)
    if x.ndim != 1 or x.shape != y.shape or not len(x):
        raise ShapeError(
            f"{owner}: '{name}' has steps of shape {x.shape} and losses of shape {y.shape}; "
            "expected two lists of the same length, at least 1."
        )
    if not np.isfinite(y).any():
        raise DataError(f"{owner}: '{name}' has no finite loss; expected at least one.")
    return x, np.where(np.isfinite(y), y, np.nan)  # a run that diverged is drawn as far as it has numbers


def _chart(names: Sequence[str], text: str | None, xlabel: str, ylabel: str) -> tuple[Sheet, Axes]:
    """Axes with room for the names of the lines on the right; all measures in inches."""
    right = style.width(names, TEXT) + (SAMPLE if _crowded(names) else 0.0) + 0.3 + EDGE
    width = LEFT + PLOT[0] + right
    tall = max(PLOT[1], GAP * (len(names) - 1))  # one name below the other
    title = Title.fit(text or "", width - 2 * EDGE, EDGE)
    above = ABOVE + (title.height + 0.06 if title.lines else 0.0)
    sheet = Sheet(width, BELOW + tall + above)
    axes = sheet.box(LEFT, above, PLOT[0], tall)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", color=style.GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=TEXT, pad=5)
    axes.tick_params(axis="x", length=3)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=ROUND, integer=True))
    axes.margins(x=0.0)
    axes.set_xlabel(xlabel, fontsize=TEXT, labelpad=6)
    sheet.write(EDGE, above - 0.24, ylabel, size=TEXT, color=style.QUIET, va="baseline")
    title.write(sheet)
    return sheet, axes


def _log_scale(axes: Axes, subs: Sequence[float]) -> None:
    """Make the y axis logarithmic, with ticks at these multiples of powers of ten."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _points(bins: Sequence[Bin], *, by_index: bool) -> tuple[list[float], list[float]]:
    """Bins that all models share stand side by side; others stand at their middle."""
    middles = [low if math.isinf(high) else (low + high) / 2 for low, high, _ in bins]
    return [float(i) for i in range(len(bins))] if by_index else middles, [value for _, _, value in bins]


def _name_bins(axes: Axes, bins: Sequence[Bin]) -> None:
    every = math.ceil(len(bins) / 12)
    axes.set_xticks(range(0, len(bins), every), [_bin_name(*bin) for bin in bins][::every])
    axes.set_xlim(-0.35, len(bins) - 1 + 0.1)


def _bin_name(low: float, high: float, _: float) -> str:
    if math.isinf(high):
        return f"≥ {low:g}"
    return f"{low:g}" if low == high else f"{low:g}–{high:g}"


def _draw_lines(
    axes: Axes, lines: Mapping[str, tuple[Sequence[float] | Array, Sequence[float] | Array]]
) -> dict[str, tuple[float, float]]:
    """Draw each line with its own marker and return their ends."""
    for i, (x, y) in enumerate(lines.values()):
        _line(axes, x, y, i, marker=style.MARKERS[i % len(style.MARKERS)])
    return {name: (float(x[-1]), float(y[-1])) for name, (x, y) in lines.items()}


def _line(axes: Axes, x: npt.ArrayLike, y: npt.ArrayLike, index: int, marker: str = "") -> None:
    axes.plot(
        x,
        y,
        **_look(index),
        marker=marker,
        markersize=5,
        markeredgecolor="white",
        markeredgewidth=0.8,
        solid_capstyle="round",
        clip_on=False,
        zorder=3 + 1 / (index + 1),  # the first model lies on top
    )


def _look(index: int) -> dict[str, Any]:
    colours = len(style.LINES)
    dash = DASHES[index // colours % len(DASHES)]
    return {"color": style.LINES[index % colours], "linestyle": dash, "linewidth": 1.8}


def _crowded(names: Sequence[str]) -> bool:
    """More lines than colours: a sample before each name tells two of one colour apart."""
    return len(names) > len(style.LINES)


def _draw_run(axes: Axes, steps: Array, losses: Array, index: int) -> tuple[float, float]:
    """Draw one run and return the end of its line."""
    groups = np.array_split(np.arange(len(steps)), min(len(steps), POINTS))
    kept = [group for group in groups if np.isfinite(losses[group]).any()]
    x = np.array([steps[group].mean() for group in kept])
    low, mean, high = (
        np.array([f(losses[group]) for group in kept]) for f in (np.nanmin, np.nanmean, np.nanmax)
    )
    window = max(1, len(kept) // 40)
    smooth = _running_mean(mean, window)
    if window > 1:
        axes.fill_between(x, low, high, color=_look(index)["color"], alpha=0.16, linewidth=0)
    _line(axes, x, smooth, index, marker="o" if len(x) == 1 else "")  # one point has no line
    return float(x[-1]), float(smooth[-1])


def _running_mean(values: Array, window: int) -> Array:
    """Mean over `window` values around each; fewer near the ends, always as many before as after."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    middle = np.arange(len(values))
    reach = np.minimum(window // 2, np.minimum(middle, middle[::-1]))
    means: Array = (sums[middle + reach + 1] - sums[middle - reach]) / (2 * reach + 1)
    return means


def _thousands(value: float, _: object) -> str:
    return f"{value:,.0f}".replace(",", " ") if value == round(value) else f"{value:g}"


def _name_lines(sheet: Sheet, axes: Axes, ends: Mapping[str, tuple[float, float]]) -> None:
    """Write each name beside the end of its line, moved up or down where two would touch."""
    axes.autoscale_view()  # matplotlib would settle the limits only while drawing
    page: dict[str, Any] = {"transform": sheet.dpi_scale_trans, "clip_on": False}
    heights = [
        float((axes.transData + sheet.dpi_scale_trans.inverted()).transform(end)[1]) for end in ends.values()
    ]
    low, high = (sheet.get_figheight() * edge for edge in axes.get_position().intervaly)
    sample = SAMPLE if _crowded(list(ends)) else 0.0
    x = LEFT + PLOT[0] + 0.1
    for i, (name, y) in enumerate(zip(ends, spread(heights, gap=GAP, within=(low, high)), strict=True)):
        look = _look(i)
        if sample:
            axes.plot([x, x - 0.1 + sample], [y, y], scalex=False, scaley=False, gid="sample", **look, **page)
        axes.text(
            x + sample, y, name, size=TEXT, color=look["color"], va="center_baseline", gid="name", **page
        )


def spread(
    places: Sequence[float], gap: float, *, within: tuple[float, float] = (-math.inf, math.inf)
) -> list[float]:
    """The places, moved as little as needed so that any two are at least `gap` apart; order is kept.

    All lie `within` these bounds, if that has room for them.
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    clusters: list[tuple[float, int]] = []  # where the first of so many neighbours stands, gaps taken out
    for k, i in enumerate(order):
        mean, count = places[i] - gap * k, 1
        # neighbours that touch meet at the mean of what they wanted
        while clusters and mean < clusters[-1][0]:
            before, more = clusters.pop()
            mean, count = (before * more + mean * count) / (more + count), more + count
        clusters.append((mean, count))
    low, high = within[0], within[1] - gap * (len(places) - 1)
    flat = [max(low, min(high, mean)) for mean, count in clusters for _ in range(count)]
    moved = {i: place + gap * k for k, (i, place) in enumerate(zip(order, flat, strict=True))}
    return [moved[i] for i in range(len(places))]

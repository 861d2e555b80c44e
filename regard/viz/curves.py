"""Curves: quality by sentence length, and loss by step; each line is named at its end.

Figure 2 of Bahdanau et al. Neural machine translation by jointly learning to align and translate. 2014.
https://arxiv.org/abs/1409.0473
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from regard.errors import ConfigError, DataError, ShapeError
from regard.viz import style
from regard.viz.axes import TEXT, Axes, log_ticks, numbers, ticks, within
from regard.viz.sheet import DASHES, MARKERS, Sheet, Title
from regard.viz.weights import Array, Weights, to_array

Bin = tuple[float, float, float]  # shortest, longest, value

PLOT = (4.6, 2.7)  # inches of the area between the axes
LEFT, BELOW, ABOVE, EDGE = 0.55, 0.58, 0.46, 0.14
GAP = TEXT * 1.2 / 72  # inches between two names
SAMPLE = 0.35  # inches of a line sample before its name, if there are many names
POINTS = 400  # longer curves are averaged: 400 points resolve the full width of the picture


def draw_lengths(
    models: Mapping[str, Sequence[Bin]],
    path: str | Path,
    *,
    xlabel: str = "sentence length (words)",
    ylabel: str = "BLEU",
) -> Path:
    """Draw one line per model through its (shortest, longest, value) bins; the last may end at `math.inf`."""
    _check_lengths(models)
    first = next(iter(models.values()))
    shared = len({tuple(bin[:2] for bin in bins) for bins in models.values()}) == 1
    lines = {name: _points(bins, by_index=shared) for name, bins in models.items()}
    marks = ticks(0, max(1.0, *(max(y) for _, y in lines.values())))
    if shared:
        every = math.ceil(len(first) / 12)
        names = {float(i): _bin_name(*first[i]) for i in range(0, len(first), every)}
        across = (-0.35, len(first) - 1 + 0.1)
    else:
        across = _extended_range([place for x, _ in lines.values() for place in x], 0.04)
        names = numbers(within(ticks(*across, whole=True), across))
    axes = _chart(list(models), "", ylabel, across, (0, marks[-1]), numbers(marks))
    axes.name_x(names, xlabel, tick=3)
    _name_lines(axes, _draw_lines(axes, lines))
    return axes.sheet.save("draw_lengths", path)


def draw_training(
    runs: Mapping[str, tuple[Sequence[float] | Weights, Sequence[float] | Weights]],
    path: str | Path,
    *,
    title: str | None = None,
    xlabel: str = "step",
    ylabel: str = "loss",
    log: bool = False,
) -> Path:
    """Draw (steps, losses) of each run; long runs as a running mean over a pale band of their range."""
    lines = {name: _check_run(name, *run) for name, run in runs.items()}
    if not lines:
        raise ConfigError("draw_training: `runs` has length 0; expected at least one run.")
    if log and any(_least(losses) <= 0 for _, losses in lines.values()):
        raise ConfigError(
            "draw_training: `log` has the value True and a loss is not positive; expected log=False."
        )
    curves = {name: _Curve.of(*line) for name, line in lines.items()}
    values = [each for curve in curves.values() for side in (curve.low, curve.high) for each in side]
    up = _extended_range(values, 0.05, log=log)
    if not log and min(values) >= 0:
        up = (0.0, up[1])
    first, last = (f(float(f(steps)) for steps, _ in lines.values()) for f in (min, max))
    across = (0.0 if 0 < first < last * 0.1 or first == last else first, last or 1.0)
    places = _decades(up, (1, 2, 5)) if log else numbers(within(ticks(*up), up))
    axes = _chart(list(runs), title, ylabel, across, up, places, log=(False, log))
    axes.name_x(numbers(within(ticks(*across, whole=True), across)), xlabel, tick=3)
    _name_lines(axes, _draw_runs(axes, curves))
    return axes.sheet.save("draw_training", path)


def draw_growth(
    series: Mapping[str, tuple[Sequence[float] | Weights, Sequence[float] | Weights]],
    path: str | Path,
    *,
    ylabel: str = "",
) -> Path:
    """Draw (lengths, costs) of each name on log-log axes, where a power law is a straight line."""
    lines = {name: _check_run(name, *one, owner="draw_growth") for name, one in series.items()}
    if not lines or any(_least(values) <= 0 for line in lines.values() for values in line):
        raise ConfigError(
            "draw_growth: `series` has nothing or a value of 0 or less; expected positive numbers."
        )
    across = _extended_range([float(x) for line in lines.values() for x in line[0]], 0.0, log=True)
    up = _extended_range([float(y) for line in lines.values() for y in line[1]], 0.05, log=True)
    axes = _chart(list(series), "", ylabel, across, up, _decades(up), log=(True, True))
    axes.name_x(numbers(log_ticks(across, base=2)), "length", tick=3)
    _name_lines(axes, _draw_lines(axes, {name: (x.tolist(), y.tolist()) for name, (x, y) in lines.items()}))
    return axes.sheet.save("draw_growth", path)


def _extended_range(values: Sequence[float], share: float, *, log: bool = False) -> tuple[float, float]:
    """The range of the values, extended by `share` of it on both sides."""
    low, high = min(values), max(values)
    if log:
        beyond = 2.0 if low == high else (high / low) ** share
        return low / beyond, high * beyond
    beyond = share * (high - low) or abs(low) * 0.05 or 0.05
    return low - beyond, high + beyond


def _decades(ends: tuple[float, float], multiples: Sequence[float] = (1,)) -> dict[float, str]:
    return {place: f"{place:g}" for place in log_ticks(ends, multiples)}


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
            f"{owner}: '{name}' has steps of shape {tuple(x.shape)} and losses of shape {tuple(y.shape)}; "
            "expected two lists of the same length, at least 1."
        )
    if not y.isfinite().any():
        raise DataError(f"{owner}: '{name}' has no finite loss; expected at least one.")
    return x, torch.where(y.isfinite(), y, torch.nan)  # a diverged run is drawn as long as it is finite


def _least(values: Array) -> float:
    """The smallest value that is not NaN."""
    return float(values[~values.isnan()].min())


def _chart(
    names: Sequence[str],
    text: str | None,
    ylabel: str,
    across: tuple[float, float],
    up: tuple[float, float],
    places: dict[float, str],
    log: tuple[bool, bool] = (False, False),
) -> Axes:
    """Axes with grid lines at `places`, and room for line names on the right."""
    right = style.width(names, TEXT) + (SAMPLE if _crowded(names) else 0.0) + 0.3 + EDGE
    width = LEFT + PLOT[0] + right
    tall = max(PLOT[1], GAP * (len(names) - 1))  # room for all names, one below the other
    title = Title.fit(text or "", width - 2 * EDGE, EDGE)
    above = ABOVE + (title.height + 0.06 if title.lines else 0.0)
    sheet = Sheet(width, BELOW + tall + above)
    sheet.write(EDGE, above - 0.24, ylabel, size=TEXT, color=style.QUIET)
    title.write(sheet)
    axes = Axes(sheet, (LEFT, above, PLOT[0], tall), across, up, log)
    axes.lines(y=list(places))
    axes.lines(y=up[:1], edge=style.RULE)
    axes.name_y(places)
    return axes


def _points(bins: Sequence[Bin], *, by_index: bool) -> tuple[list[float], list[float]]:
    """x and y of the bins: x is the index if all models share the bins, otherwise the middle of a bin."""
    middles = [low if math.isinf(high) else (low + high) / 2 for low, high, _ in bins]
    return [float(i) for i in range(len(bins))] if by_index else middles, [value for _, _, value in bins]


def _bin_name(low: float, high: float, _: float) -> str:
    if math.isinf(high):
        return f"≥ {low:g}"
    return f"{low:g}" if low == high else f"{low:g}–{high:g}"


def _draw_lines(
    axes: Axes, lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]
) -> dict[str, tuple[float, float]]:
    """Draw each line with its own marker, the first one on top; returns where they end."""
    for i, (x, y) in reversed(list(enumerate(lines.values()))):
        _line(axes, x, y, i, list(MARKERS)[i % len(MARKERS)])
    return {name: (x[-1], y[-1]) for name, (x, y) in lines.items()}


def _line(axes: Axes, x: Sequence[float], y: Sequence[float], index: int, marker: str = "") -> None:
    colour, dash = _line_style(index)
    places = [axes.at(u, v) for u, v in zip(x, y, strict=True)]
    axes.sheet.draw([places], edge=colour, line=1.8, dash=dash, cap="round", kind="line")
    for place in places if marker else ():
        axes.sheet.dot(place, 5, colour, edge="#ffffff", line=0.8, marker=marker)


def _line_style(index: int) -> tuple[str, str]:
    """Colour and dash style of a line."""
    colours = len(style.LINES)
    return style.LINES[index % colours], list(DASHES)[index // colours % len(DASHES)]


def _crowded(names: Sequence[str]) -> bool:
    """Whether there are more lines than colours: then a sample before each name tells them apart."""
    return len(names) > len(style.LINES)


class _Curve(NamedTuple):
    """A run as drawn: smallest, mean and largest value in each of at most POINTS stretches."""

    x: list[float]
    low: list[float]
    smooth: list[float]
    high: list[float]
    window: int

    @classmethod
    def of(cls, steps: Array, losses: Array) -> "_Curve":
        count = min(len(steps), POINTS)
        groups = zip(steps.tensor_split(count), losses.tensor_split(count), strict=True)
        kept = [(x.mean(), y[~y.isnan()]) for x, y in groups if not y.isnan().all()]
        low, mean, high = (torch.stack([f(y) for _, y in kept]) for f in (torch.min, torch.mean, torch.max))
        window = max(1, len(kept) // 40)
        smooth = _running_mean(mean, window).tolist()
        return cls([float(x) for x, _ in kept], low.tolist(), smooth, high.tolist(), window)


def _draw_runs(axes: Axes, curves: Mapping[str, _Curve]) -> dict[str, tuple[float, float]]:
    """Draw the runs, the first one on top; returns where they end."""
    for i, curve in enumerate(curves.values()):
        if curve.window > 1:
            edge = zip(curve.x + curve.x[::-1], curve.low + curve.high[::-1], strict=True)
            band = [axes.at(*each) for each in edge]
            axes.sheet.draw([band], fill=_line_style(i)[0], opacity=0.16, closed=True)
    for i, curve in reversed(list(enumerate(curves.values()))):
        _line(axes, curve.x, curve.smooth, i, "o" if len(curve.x) == 1 else "")  # a single point has no line
    return {name: (curve.x[-1], curve.smooth[-1]) for name, curve in curves.items()}


def _running_mean(values: Array, window: int) -> Array:
    """A centred mean over `window` values; near the ends the window shrinks symmetrically."""
    sums = torch.cat([values.new_zeros(1), values.cumsum(0)])
    middle = torch.arange(len(values))
    reach = torch.minimum(middle, middle.flip(0)).clamp(max=window // 2)
    means = (sums[middle + reach + 1] - sums[middle - reach]) / (2 * reach + 1)
    return means.clamp(values.min(), values.max())  # rounding errors may exceed the range


def _name_lines(axes: Axes, ends: Mapping[str, tuple[float, float]]) -> None:
    """Write each name at the end of its line, moved up or down to avoid overlaps."""
    heights = [-axes.at(*end)[1] for end in ends.values()]
    sample = SAMPLE if _crowded(list(ends)) else 0.0
    _, top, _, tall = axes.box
    x, apart = LEFT + PLOT[0] + 0.1, spread(heights, gap=GAP, within=(-top - tall, -top))
    for i, (name, y) in enumerate(zip(ends, apart, strict=True)):
        colour, dash = _line_style(i)
        if sample:
            places = [(x, -y), (x - 0.1 + sample, -y)]
            axes.sheet.draw([places], edge=colour, line=1.8, dash=dash, kind="sample")
        axes.sheet.write(x + sample, -y, name, size=TEXT, color=colour, middle=True, kind="name")


def spread(
    places: Sequence[float], gap: float, *, within: tuple[float, float] = (-math.inf, math.inf)
) -> list[float]:
    """Move the places as little as possible so that any two are at least `gap` apart, in the same order.

    They stay `within` these bounds if there is room.
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    clusters: list[tuple[float, int]] = []  # (place of the first, size), gaps subtracted
    for k, i in enumerate(order):
        mean, count = places[i] - gap * k, 1
        # touching clusters merge at the mean of their wanted places
        while clusters and mean < clusters[-1][0]:
            before, more = clusters.pop()
            mean, count = (before * more + mean * count) / (more + count), more + count
        clusters.append((mean, count))
    low, high = within[0], within[1] - gap * (len(places) - 1)
    flat = [max(low, min(high, mean)) for mean, count in clusters for _ in range(count)]
    moved = {i: place + gap * k for k, (i, place) in enumerate(zip(order, flat, strict=True))}
    return [moved[i] for i in range(len(places))]

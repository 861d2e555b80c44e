"""Attention as flow: two columns of words joined by lines as wide as the weights."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline

from regard.viz import style
from regard.viz.files import check_ending, save
from regard.viz.weights import Array, Weights, check_weights, peak

MARGIN, PAD, BETWEEN = 0.14, 0.1, 2.2  # inches
TITLE, SMALL = 11.0, 8.0  # points
FAINT = 0.02  # of the largest weight: below it a line would not be seen


def draw_flow(
    weights: Weights,
    source: Sequence[str],
    target: Sequence[str],
    *,
    title: str | None = None,
    path: str | Path,
) -> Path:
    """Draw weights (T, S): source words on the left, target words on the right. PNG or SVG by the ending."""
    path = check_ending("draw_flow", path)
    array = check_weights("draw_flow", weights, source, target)
    with style.look([title or "", *source, *target]):
        return save(_compose(array, source, target, title or ""), path)


def _compose(weights: Array, source: Sequence[str], target: Sequence[str], title: str) -> Figure:
    T, S = weights.shape
    step = float(np.interp(max(T, S), [4, 20, 70], [0.34, 0.24, 0.16]))
    size = min(11.0, step * 72 * 0.6)
    left = MARGIN + style.width(map(style.label, source), size) + PAD
    right = left + BETWEEN
    width = right + PAD + style.width(map(style.label, target), size) + MARGIN
    lines = style.wrap(title, TITLE, max(width - 2 * MARGIN, 3.2))
    width = max(width, style.width(lines, TITLE) + 2 * MARGIN)
    line = TITLE * 1.25 / 72
    top = MARGIN + len(lines) * line + (PAD if lines else 0.0)
    height = top + max(T, S) * step + MARGIN
    figure = Figure(figsize=(width, height), dpi=style.DPI)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    for i, text in enumerate(lines):
        axes.text(MARGIN, MARGIN + (i + 0.8) * line, text, size=TITLE, va="baseline")
    middle = top + max(T, S) * step / 2
    sources = [middle + (s + 0.5 - S / 2) * step for s in range(S)]
    targets = [middle + (t + 0.5 - T / 2) * step for t in range(T)]
    _draw_lines(axes, weights / peak(weights), (left, sources), (right, targets), step)
    rise = size * 0.36 / 72
    for word, y in zip(source, sources, strict=True):
        axes.text(left - PAD, y + rise, style.label(word), size=size, ha="right", va="baseline", gid="source")
    for word, y in zip(target, targets, strict=True):
        axes.text(right + PAD, y + rise, style.label(word), size=size, ha="left", va="baseline", gid="target")
    return figure


def _draw_lines(
    axes: Axes, shades: Array, left: tuple[float, list[float]], right: tuple[float, list[float]], step: float
) -> None:
    """Thin lines first, so that the strong ones lie on top."""
    x0, x1 = left[0], right[0]
    bend = (x1 - x0) * 0.5
    order = np.column_stack(np.unravel_index(np.argsort(shades, axis=None), shades.shape))
    for t, s in order.tolist():
        shade = float(shades[t, s])
        if shade < FAINT:
            continue
        y0, y1 = left[1][s], right[1][t]
        curve = Outline(
            [(x0, y0), (x0 + bend, y0), (x1 - bend, y1), (x1, y1)],
            [Outline.MOVETO, Outline.CURVE4, Outline.CURVE4, Outline.CURVE4],
        )
        axes.add_patch(
            PathPatch(
                curve,
                fill=False,
                linewidth=max(0.4, shade * step * 72 * 0.42),
                edgecolor=(*to_rgb(style.LINES[0]), 0.12 + 0.68 * shade),
                capstyle="butt",
            )
        )

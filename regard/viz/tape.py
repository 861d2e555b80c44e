"""A Neural Turing Machine at work: its inputs, outputs, and the positions of its heads, step by step.

Time runs from left to right. On the left what enters the memory, on the right what leaves it: inputs and
outputs, added vectors and read vectors, write weightings and read weightings. Zero is white, and negative
values are orange.

Figure 6 of Graves, Wayne, Danihelka. Neural Turing machines. 2014. https://arxiv.org/abs/1410.5401
"""

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import torch

from regard.errors import ConfigError, DataError, ShapeError
from regard.viz import style
from regard.viz.axes import Axes, numbers, ticks, within
from regard.viz.sheet import TITLE, Box, Sheet
from regard.viz.weights import Array, Weights, check_finite, to_array

SIGNED = style.Shades.between([(0.0, style.GOLD), (0.5, "#ffffff"), (0.75, "#2a74b5"), (1.0, "#08264f")])
WIDE, LEFT, RIGHT, ABOVE, BELOW = 4.2, 0.62, 0.14, 0.3, 0.42  # inches
VISIBLE = 0.05  # rows with no larger weight are cropped, except next to visible ones
FEWEST = 8  # fewest rows drawn


class _Panel(NamedTuple):
    name: str
    values: Array  # (T, rows)
    first: int  # index of the first row
    signed: bool


def draw_tape(
    *,
    inputs: Weights,
    outputs: Weights,
    adds: Weights,
    reads: Weights,
    write_weights: Weights,
    read_weights: Weights,
    title: str = "",
    path: str | Path,
) -> Path:
    """Draw (T, I), (T, O), (T, W, M), (T, R, M), (T, W, N), (T, R, N) as PNG or SVG."""
    given = {
        "inputs": (inputs, 2),
        "outputs": (outputs, 2),
        "adds": (adds, 3),
        "reads": (reads, 3),
        "write_weights": (write_weights, 3),
        "read_weights": (read_weights, 3),
    }
    arrays = _check("draw_tape", given)
    for name in ("write_weights", "read_weights"):
        check_finite("draw_tape", arrays[name])
    return _compose(_columns(arrays), title).save("draw_tape", path)


def draw_sequences(panels: Mapping[str, Weights], *, title: str = "", path: str | Path) -> Path:
    """Draw named sequences of vectors, (T, D) each, below each other, as PNG or SVG."""
    if not panels:
        raise ConfigError("draw_sequences: `panels` has length 0; expected at least one.")
    arrays = _check("draw_sequences", {name: (values, 2) for name, values in panels.items()})
    column = [_Panel(name, values, 0, True) for name, values in arrays.items()]
    return _compose((column,), title).save("draw_sequences", path)


def _check(owner: str, given: Mapping[str, tuple[Weights, int]]) -> dict[str, Array]:
    arrays = {name: to_array(values) for name, (values, _) in given.items()}
    first = next(iter(arrays.values()))
    T = first.shape[0] if first.ndim else 0
    for name, (_, axes) in given.items():
        array = arrays[name]
        if array.ndim != axes or array.shape[0] != T or array.numel() == 0:
            wanted = f"(T={T}, …)" if axes == 2 else f"(T={T}, heads, …)"
            raise ShapeError(
                f"{owner}: `{name}` has shape {tuple(array.shape)}; expected {wanted}, none of them 0."
            )
        if not array.isfinite().all():
            raise DataError(f"{owner}: `{name}` has values that are not finite; expected numbers.")
    return arrays


def _columns(arrays: dict[str, Array]) -> tuple[list[_Panel], list[_Panel]]:
    """The left and right columns: what enters the memory, and what leaves it."""
    weights = torch.cat([arrays["write_weights"], arrays["read_weights"]], 1)
    low, high = _used(weights)
    left = [_Panel("inputs", arrays["inputs"], 0, True)]
    right = [_Panel("outputs", arrays["outputs"], 0, True)]
    for side, vectors, places, verb, place in (
        (left, "adds", "write_weights", "added", "write weighting"),
        (right, "reads", "read_weights", "read", "read weighting"),
    ):
        heads = arrays[vectors].shape[1]
        for h in range(heads):
            of = f", head {h + 1}" if heads > 1 else ""
            side.append(_Panel(f"{verb}{of}", arrays[vectors][:, h], 0, True))
            side.append(_Panel(f"{place}{of}", arrays[places][:, h, low:high], low, False))
    return left, right


def _used(weights: Array) -> tuple[int, int]:
    """The range of rows that have visible weights: first, and one past the last."""
    N = weights.shape[-1]
    held = (weights.amax((0, 1)) > VISIBLE).nonzero()
    low, high = (int(held[0]) - 1, int(held[-1]) + 2) if len(held) else (0, N)
    low = max(0, min(low, N - FEWEST))
    return low, min(N, max(high, low + FEWEST))


def _compose(columns: tuple[list[_Panel], ...], title: str) -> Sheet:
    heights = [max(_height(panel) for panel in row if panel) for row in zip_longest(*columns)]
    total = ABOVE * (len(heights) + bool(title)) + sum(heights) + BELOW
    sheet = Sheet(len(columns) * (LEFT + WIDE) + RIGHT, total)
    sheet.write(LEFT, 0.24, title, size=TITLE)
    top = ABOVE if title else 0.0
    for i, height in enumerate(heights):
        top += ABOVE
        for c, column in enumerate(columns):
            if i < len(column):
                place = (LEFT + c * (WIDE + LEFT), top, WIDE, height)
                _draw(sheet, place, column[i], last=i == len(column) - 1)
        top += height
    return sheet


def _height(panel: _Panel) -> float:
    return min(max(0.055 * panel.values.shape[1], 0.3), 2.6)


def _draw(sheet: Sheet, box: Box, panel: _Panel, *, last: bool) -> None:
    T, rows = panel.values.shape
    top = max(float(panel.values.abs().max()), 1.0)
    least, shades = (-top, SIGNED) if panel.signed else (0.0, style.WEIGHTS)
    sheet.shades(panel.values.T, box, top, least=least, shades=shades, kind=panel.name)
    sheet.rect(box, edge=style.RULE, line=0.8)
    sheet.write(box[0], box[1] - 3 / 72, panel.name, size=9, color=style.QUIET, kind="name")
    axes = Axes(sheet, box, (-0.5, T - 0.5), (panel.first + rows - 0.5, panel.first - 0.5))
    steps = numbers(within(ticks(0, T - 1, 8, whole=True), (0, T - 1)))
    axes.name_x(steps if last else dict.fromkeys(steps, ""), "step" if last else "", size=7, tick=2, away=3.5)
    if not panel.signed:
        places = within(ticks(panel.first, panel.first + rows - 1, 5, whole=True), axes.up)
        axes.name_y(numbers(places), "row of the tape", size=7, tick=2, away=3.5)

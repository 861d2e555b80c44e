"""A machine at work: what it read and wrote, and where on its tape its heads stood, step by step.

Time runs from left to right. On the left what goes into the memory, on the right what comes out of it: inputs
beside outputs, vectors added beside vectors read, the weightings of the write heads beside those of the read
heads. White is zero; vectors may be negative, which is drawn in orange.

Figure 6 of Graves, Wayne, Danihelka. Neural Turing machines. 2014. https://arxiv.org/abs/1410.5401
"""

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import MaxNLocator

from regard.errors import ConfigError, DataError, ShapeError
from regard.viz import style
from regard.viz.files import draw
from regard.viz.sheet import TITLE, Sheet, draw_shades
from regard.viz.weights import Array, Weights, check_finite, to_array

SIGNED = LinearSegmentedColormap.from_list(
    "regard-signed", [(0.0, style.GOLD), (0.5, "#ffffff"), (0.75, "#2a74b5"), (1.0, "#08264f")]
)
WIDE, LEFT, RIGHT, ABOVE, BELOW = 4.2, 0.62, 0.14, 0.3, 0.42  # inches
VISIBLE = 0.05  # rows that no head ever holds more than this of are left out, but for their neighbours
FEWEST = 8  # rows of the tape that are drawn at least


class _Panel(NamedTuple):
    name: str
    values: Array  # (T, rows)
    first: int  # the number of the first row
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
    return draw("draw_tape", path, [title], lambda: _compose(_columns(arrays), title))


def draw_sequences(panels: Mapping[str, Weights], *, title: str = "", path: str | Path) -> Path:
    """Draw named sequences of vectors, (T, D) each, one below the other, as PNG or SVG."""
    if not panels:
        raise ConfigError("draw_sequences: `panels` has length 0; expected at least one.")
    arrays = _check("draw_sequences", {name: (values, 2) for name, values in panels.items()})
    column = [_Panel(name, values, 0, True) for name, values in arrays.items()]
    return draw("draw_sequences", path, [title, *panels], lambda: _compose((column,), title))


def _check(owner: str, given: Mapping[str, tuple[Weights, int]]) -> dict[str, Array]:
    arrays = {name: to_array(values) for name, (values, _) in given.items()}
    first = next(iter(arrays.values()))
    T = first.shape[0] if first.ndim else 0
    for name, (_, axes) in given.items():
        array = arrays[name]
        if array.ndim != axes or array.shape[0] != T or array.size == 0:
            wanted = f"(T={T}, …)" if axes == 2 else f"(T={T}, heads, …)"
            raise ShapeError(f"{owner}: `{name}` has shape {array.shape}; expected {wanted}, none of them 0.")
        if not np.isfinite(array).all():
            raise DataError(f"{owner}: `{name}` has values that are not finite; expected numbers.")
    return arrays


def _columns(arrays: dict[str, Array]) -> tuple[list[_Panel], list[_Panel]]:
    """What goes in and what comes out."""
    weights = np.concatenate([arrays["write_weights"], arrays["read_weights"]], 1)
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
    """The rows that matter: first and one past the last."""
    N = weights.shape[-1]
    held = np.flatnonzero(weights.max((0, 1)) > VISIBLE)
    low, high = (int(held[0]) - 1, int(held[-1]) + 2) if len(held) else (0, N)
    low = max(0, min(low, N - FEWEST))
    return low, min(N, max(high, low + FEWEST))


def _compose(columns: tuple[list[_Panel], ...], title: str) -> Sheet:
    heights = [max(_height(panel) for panel in row if panel) for row in zip_longest(*columns)]
    total = ABOVE * (len(heights) + bool(title)) + sum(heights) + BELOW
    sheet = Sheet(len(columns) * (LEFT + WIDE) + RIGHT, total)
    sheet.write(LEFT, 0.2, title, size=TITLE, va="center")
    top = ABOVE if title else 0.0
    for i, height in enumerate(heights):
        top += ABOVE
        for c, column in enumerate(columns):
            if i < len(column):
                axes = sheet.box(LEFT + c * (WIDE + LEFT), top, WIDE, height, framed=True)
                _draw(axes, column[i], last=i == len(column) - 1)
        top += height
    return sheet


def _height(panel: _Panel) -> float:
    return float(np.clip(0.055 * panel.values.shape[1], 0.3, 2.6))


def _draw(axes: Axes, panel: _Panel, *, last: bool) -> None:
    T, rows = panel.values.shape
    top = max(float(np.abs(panel.values).max()), 1.0)
    extent = (-0.5, T - 0.5, panel.first + rows - 0.5, panel.first - 0.5)
    signed = {"cmap": SIGNED, "vmin": -top} if panel.signed else {}
    draw_shades(axes, panel.values.T, vmax=top, extent=extent, **signed)
    axes.set_title(panel.name, size=9, loc="left", color=style.QUIET, pad=3)
    axes.tick_params(length=2, labelsize=7)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    if not last:
        axes.set_xticklabels([])
    else:
        axes.set_xlabel("step", size=8)
    if panel.signed:
        axes.set_yticks([])
    else:
        axes.set_ylabel("row of the tape", size=8)

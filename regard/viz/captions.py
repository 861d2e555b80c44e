"""A picture once for each word of its caption: bright where attention lay when the word was written.

Figures 2 and 3 of Xu et al. Show, attend and tell. 2015. https://arxiv.org/abs/1502.03044
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from regard.errors import ShapeError
from regard.viz import style
from regard.viz.files import check_ending, save
from regard.viz.weights import Array, Weights, check_finite, to_array

PANEL, GAP, MARGIN = 1.35, 0.1, 0.15  # inches
WORD = 0.27  # inches above a panel
TITLE, WORDS = 11.0, 9.5  # points
COLUMNS = 7  # panels in a row
DIM = 0.22  # what is left of the picture where attention was not


def draw_caption(
    picture: Any, words: Sequence[str], weights: Weights, *, title: str | None = None, path: str | Path
) -> Path:
    """Draw a (H, H, 3) picture of bytes and (T, L) weights over a square grid, row by row. PNG or SVG.

    Each panel is scaled to its own largest weight.
    """
    path = check_ending("draw_caption", path)
    pixels = np.asarray(picture)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.shape[0] != pixels.shape[1] or pixels.size == 0:
        raise ShapeError(f"draw_caption: `picture` has shape {pixels.shape}; expected (H, H, 3).")
    array = to_array(weights)
    rows = math.isqrt(array.shape[-1]) if array.ndim == 2 else 0
    if array.ndim != 2 or len(array) != len(words) or rows * rows != array.shape[1] or rows == 0:
        raise ShapeError(
            f"draw_caption: `weights` has shape {array.shape}; expected (T={len(words)}, L), a row for each "
            "word and L places of a square grid."
        )
    check_finite("draw_caption", array)
    with style.look([title or "", *words]):
        return save(_compose(pixels, words, array.reshape(-1, rows, rows), title or ""), path)


def _compose(pixels: NDArray[np.uint8], words: Sequence[str], weights: Array, title: str) -> Figure:
    columns = min(COLUMNS, len(words) + 1)
    rows = math.ceil((len(words) + 1) / columns)
    width = 2 * MARGIN + columns * PANEL + (columns - 1) * GAP
    lines = style.wrap(title, TITLE, width - 2 * MARGIN) if title else []
    top = MARGIN + len(lines) * TITLE * 1.35 / 72
    height = top + rows * (PANEL + WORD) + MARGIN
    figure = Figure(figsize=(width, height), dpi=style.DPI)
    for number, line in enumerate(lines):
        y = 1 - (MARGIN + (number + 0.5) * TITLE * 1.35 / 72) / height
        figure.text(MARGIN / width, y, line, size=TITLE, va="center")
    for number in range(len(words) + 1):
        row, column = divmod(number, columns)
        x, y = MARGIN + column * (PANEL + GAP), top + row * (PANEL + WORD) + WORD
        box = (x / width, 1 - (y + PANEL) / height, PANEL / width, PANEL / height)
        axes = figure.add_axes(box)
        shown = pixels if number == 0 else lit(pixels, weights[number - 1])
        _panel(axes, shown, "" if number == 0 else style.label(words[number - 1]))
    return figure


def _panel(axes: Axes, pixels: NDArray[np.uint8], word: str) -> None:
    axes.imshow(pixels, interpolation="bilinear" if len(pixels) >= 100 else "nearest")
    axes.set(xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_visible(True)
    axes.set_title(word, size=WORDS, pad=4)


def lit(pixels: NDArray[np.uint8], weights: Array) -> NDArray[np.uint8]:
    """(H, H, 3) with (h, h) weights as light, interpolated between the places' middles."""
    H, h = len(pixels), len(weights)
    light = weights / max(float(weights.max()), 1e-12)
    at = np.clip((np.arange(H) + 0.5) * h / H - 0.5, 0, h - 1)
    low = np.floor(at).astype(int)
    high, part = np.minimum(low + 1, h - 1), (at - low)[:, None]
    down = light[low] * (1 - part) + light[high] * part  # (H, h)
    full = down[:, low] * (1 - part.T) + down[:, high] * part.T  # (H, H)
    return (pixels * (DIM + (1 - DIM) * full[..., None])).round().clip(0, 255).astype(np.uint8)

"""An episode of few-shot classification: labelled drawings in order, then the query, and what it weighed.

Under each drawing is a box for every attention block, shaded by the weight that the query gave to it there.
The drawings of the query's true class are framed in orange; the query, which may weigh itself too, is last.

After figure 2 of Mishra et al. A simple neural attentive meta-learner. 2018. https://arxiv.org/abs/1707.03141
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.errors import ShapeError
from regard.viz import style
from regard.viz.files import check_ending, save
from regard.viz.weights import Array, Weights, check_finite, to_array

MARGIN, TILE, BOX, NAME = 0.16, 0.63, 0.17, 0.2  # inches
GAP = TILE * 6 / 28  # between drawings; of a drawing of 28 pixels, 6
TITLE, SIZE, SMALL = 11.0, 9.0, 6.5  # points
ACROSS = 11  # drawings in a row
DARK = 0.55  # shades beyond this carry white letters


def draw_episode(
    images: Any,
    labels: Sequence[str],
    weights: Weights,
    *,
    answer: str,
    found: str | None = None,
    title: str | None = None,
    path: str | Path,
) -> Path:
    """Draw images (T, H, W), ink bright, the last being the query; weights (L, T) of its L attention blocks.

    `labels` are those of the first T - 1; `answer` is the query's own, `found` what a model called it.
    """
    path = check_ending("draw_episode", path)
    pictures, array = np.asarray(images, dtype=np.float64), to_array(weights)
    T = len(labels) + 1
    if pictures.ndim != 3 or len(pictures) != T:
        raise ShapeError(
            f"draw_episode: `images` has shape {pictures.shape}; expected (T={T}, H, W), one for each label "
            "and the query."
        )
    if array.ndim != 2 or array.shape[1] != T:
        raise ShapeError(f"draw_episode: `weights` has shape {array.shape}; expected (L, T={T}).")
    check_finite("draw_episode", array)
    named = f"{answer} is called {found}" if found is not None else ""
    with style.look([title or "", *labels, answer, named]):
        return save(_compose(pictures, [*labels, "?"], array, answer, found, title or ""), path)


def _compose(
    images: npt.NDArray[np.float64],
    names: Sequence[str],
    weights: Array,
    answer: str,
    found: str | None,
    title: str,
) -> Figure:
    L, T = weights.shape
    side = style.width([f"block {L}"], SIZE) + GAP if L else 0.0
    across, down = min(T, ACROSS), math.ceil(T / ACROSS)
    lines = style.wrap(title, TITLE, max(side + across * (TILE + GAP), 4.0))
    head = MARGIN + len(lines) * TITLE * 1.3 / 72 + (0.06 if lines else 0)
    row = NAME + TILE + L * BOX + 2 * GAP
    verdict = _verdict(answer, found)
    width = 2 * MARGIN + max(
        side + across * (TILE + GAP) - GAP, style.width([*lines], TITLE), style.width([verdict], SIZE)
    )
    height = head + down * row + SIZE * 1.3 / 72 + MARGIN
    axes = style.sheet(width, height)
    for number, line in enumerate(lines):
        axes.text(MARGIN, MARGIN + (number + 0.8) * TITLE * 1.3 / 72, line, size=TITLE, va="baseline")
    for first in range(0, T, ACROSS):
        _drawings(axes, images[first : first + ACROSS], MARGIN + side, head + first // ACROSS * row)
    for t in range(T):
        x = MARGIN + side + (t % ACROSS) * (TILE + GAP)
        y = head + (t // ACROSS) * row
        _tile(axes, names[t], x, y, right=names[t] == answer, query=t == T - 1)
        for block in range(L):
            _box(axes, float(weights[block, t]), x, y + NAME + TILE + 0.04 + block * BOX)
    for level in range(down):
        for block in range(L):
            middle = head + level * row + NAME + TILE + 0.04 + (block + 0.5) * BOX
            axes.text(MARGIN, middle, f"block {block + 1}", size=SIZE, color=style.QUIET, va="center")
    axes.text(MARGIN, height - MARGIN, verdict, size=SIZE, va="baseline")
    return axes.figure  # type: ignore[return-value]


def _verdict(answer: str, found: str | None) -> str:
    if found is None:
        return f"? is {answer}"
    return f"? is {answer}, and was called {found}"


def _drawings(axes: Axes, images: npt.NDArray[np.float64], x: float, y: float) -> None:
    """A row of drawings as one picture: dozens of them one by one take matplotlib many seconds."""
    n, height, width = images.shape
    gap = round(width * GAP / TILE)
    strip = np.ones((height, n, width + gap))
    strip[:, :, :width] = (1 - images / np.maximum(images.max((1, 2), keepdims=True), 1)).swapaxes(0, 1)
    axes.imshow(
        strip.reshape(height, -1),
        cmap="gray",
        vmin=0,
        vmax=1,
        extent=(x, x + n * TILE * (width + gap) / width, y + NAME + TILE, y + NAME),
        interpolation="nearest",
        aspect="auto",
    )


def _tile(axes: Axes, name: str, x: float, y: float, *, right: bool, query: bool) -> None:
    top = y + NAME
    color = style.GOLD if right else style.INK if query else style.RULE
    axes.text(
        x + TILE / 2,
        top - 0.05,
        name,
        size=SIZE,
        ha="center",
        va="baseline",
        color=style.GOLD if right else style.INK,
    )
    axes.add_patch(
        Rectangle((x, top), TILE, TILE, fill=False, edgecolor=color, linewidth=1.4 if right or query else 0.7)
    )


def _box(axes: Axes, weight: float, x: float, y: float) -> None:
    shade = min(weight, 1.0)
    axes.add_patch(
        Rectangle(
            (x, y), TILE, BOX - 0.02, facecolor=style.WEIGHTS(shade), edgecolor=style.GRID, linewidth=0.5
        )
    )
    color = "white" if shade > DARK else style.INK
    axes.text(
        x + TILE / 2, y + BOX / 2 - 0.01, f"{weight:.2f}", size=SMALL, color=color, ha="center", va="center"
    )

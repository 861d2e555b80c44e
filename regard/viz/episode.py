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
from matplotlib.patches import Rectangle

from regard.errors import ShapeError
from regard.viz import style
from regard.viz.files import draw
from regard.viz.sheet import Sheet, Title, draw_cell, round_up
from regard.viz.weights import Array, Weights, check_finite, to_array

MARGIN, TILE, BOX, NAME = 0.16, 0.63, 0.17, 0.2  # inches
GAP = TILE * 6 / 28  # between drawings; of a drawing of 28 pixels, 6
SIZE, SMALL = 9.0, 6.5  # points
ACROSS = 11  # drawings in a row


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
    verdict = f"? is {answer}" if found is None else f"? is {answer}, and was called {found}"
    return draw(
        "draw_episode",
        path,
        [title or "", *labels, verdict],
        lambda: _compose(pictures, [*labels, "?"], array, answer, verdict, title or ""),
    )


def _compose(
    images: npt.NDArray[np.float64],
    names: Sequence[str],
    weights: Array,
    answer: str,
    verdict: str,
    text: str,
) -> Sheet:
    L, T = weights.shape
    side = style.width([f"block {L}"], SIZE) + GAP if L else 0.0
    across, down = min(T, ACROSS), math.ceil(T / ACROSS)
    title = Title.fit(text, max(side + across * (TILE + GAP), 4.0), MARGIN)
    head = MARGIN + title.height + (0.06 if title.lines else 0)
    row = NAME + TILE + L * BOX + 2 * GAP
    wide = max(side + across * (TILE + GAP) - GAP, title.width, style.width([verdict], SIZE))
    height = head + down * row + SIZE * 1.3 / 72 + MARGIN
    sheet = Sheet(round_up(2 * MARGIN + wide), round_up(height))
    title.write(sheet)
    axes = sheet.page()
    for level in range(down):
        top = head + level * row
        shown = range(level * ACROSS, min(T, (level + 1) * ACROSS))
        _drawings(axes, images[shown.start : shown.stop], MARGIN + side, top)
        for i, t in enumerate(shown):
            _tile(axes, names[t], MARGIN + side + i * (TILE + GAP), top, names[t] == answer, t == T - 1)
        for block in range(L):
            y = top + NAME + TILE + 0.04 + block * BOX
            axes.text(MARGIN, y + BOX / 2, f"block {block + 1}", size=SIZE, color=style.QUIET, va="center")
            for i, t in enumerate(shown):
                _box(axes, float(weights[block, t]), MARGIN + side + i * (TILE + GAP), y)
    axes.text(MARGIN, height - MARGIN, verdict, size=SIZE, va="baseline")
    return sheet


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


def _tile(axes: Axes, name: str, x: float, y: float, right: bool, query: bool) -> None:
    """The name and the frame of a drawing."""
    top = y + NAME
    ink = style.GOLD if right else style.INK
    frame = ink if right or query else style.RULE
    axes.text(x + TILE / 2, top - 0.05, name, size=SIZE, ha="center", va="baseline", color=ink)
    line = 1.4 if right or query else 0.7
    axes.add_patch(Rectangle((x, top), TILE, TILE, fill=False, edgecolor=frame, linewidth=line))


def _box(axes: Axes, weight: float, x: float, y: float) -> None:
    ink = draw_cell(axes, x, y, TILE, BOX - 0.02, weight)
    middle = (x + TILE / 2, y + BOX / 2 - 0.01)
    axes.text(*middle, f"{weight:.2f}", size=SMALL, color=ink, ha="center", va="center")

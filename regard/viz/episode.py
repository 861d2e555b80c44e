"""An episode of few-shot classification: labelled drawings in order, then the query, and its attention.

Under each drawing is a box per attention block, shaded by the weight of the query on the drawing. Drawings of
the query's true class are framed in orange; the query, which may attend to itself too, is last.

After figure 2 of Mishra et al. A simple neural attentive meta-learner. 2018. https://arxiv.org/abs/1707.03141
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from regard.errors import ShapeError
from regard.tensor_bytes import as_bytes
from regard.viz import style
from regard.viz.sheet import Sheet, Title, draw_cell
from regard.viz.weights import Array, Weights, check_finite, to_array

MARGIN, TILE, BOX, NAME = 0.16, 0.63, 0.17, 0.2  # inches
GAP = TILE * 6 / 28  # between drawings: 6 pixels of a drawing of 28
SIZE, SMALL = 9.0, 6.5  # points
ACROSS = 11  # drawings in a row


def draw_episode(
    images: Any,
    labels: Sequence[str],
    weights: Weights,
    *,
    answer: str,
    found: str | None = None,
    title: str = "",
    path: str | Path,
) -> Path:
    """Draw images (T, H, W), ink bright, the query last; weights (L, T) are those of L attention blocks.

    `labels` belong to the first T - 1 images; `answer` is the query's true label, `found` the model's.
    """
    pictures, array = to_array(images), to_array(weights)
    T = len(labels) + 1
    if pictures.ndim != 3 or len(pictures) != T:
        raise ShapeError(
            f"draw_episode: `images` has shape {tuple(pictures.shape)}; expected (T={T}, H, W), one for each "
            "label and the query."
        )
    if array.ndim != 2 or array.shape[1] != T:
        raise ShapeError(f"draw_episode: `weights` has shape {tuple(array.shape)}; expected (L, T={T}).")
    check_finite("draw_episode", array)
    verdict = f"? is {answer}" if found is None else f"? is {answer}, and was called {found}"
    names, L = [*labels, "?"], len(array)
    side = style.width([f"block {L}"], SIZE) + GAP if L else 0.0
    across, down = min(T, ACROSS), math.ceil(T / ACROSS)
    heading = Title.fit(title, max(side + across * (TILE + GAP), 4.0), MARGIN)
    head = MARGIN + heading.height + (0.06 if heading.lines else 0)
    row = NAME + TILE + L * BOX + 2 * GAP
    wide = max(side + across * (TILE + GAP) - GAP, heading.width, style.width([verdict], SIZE))
    height = head + down * row + SIZE * 1.3 / 72 + MARGIN
    sheet = Sheet(2 * MARGIN + wide, height)
    heading.write(sheet)
    for level in range(down):
        top = head + level * row
        shown = range(level * ACROSS, min(T, (level + 1) * ACROSS))
        _drawings(sheet, pictures[shown.start : shown.stop], MARGIN + side, top)
        for i, t in enumerate(shown):
            _tile(sheet, names[t], MARGIN + side + i * (TILE + GAP), top, names[t] == answer, t == T - 1)
        for block in range(L):
            y = top + NAME + TILE + 0.04 + block * BOX
            sheet.write(MARGIN, y + BOX / 2, f"block {block + 1}", size=SIZE, color=style.QUIET, middle=True)
            for i, t in enumerate(shown):
                _box(sheet, float(array[block, t]), MARGIN + side + i * (TILE + GAP), y)
    sheet.write(MARGIN, height - MARGIN, verdict, size=SIZE)
    return sheet.save("draw_episode", path)


def _drawings(sheet: Sheet, images: Array, x: float, y: float) -> None:
    """Draw a row of drawings as one image, ink dark."""
    n, height, width = images.shape
    gap = round(width * GAP / TILE)
    strip = images.new_ones(height, n, width + gap)
    strip[:, :, :width] = (1 - images / images.amax((1, 2), keepdim=True).clamp(min=1)).transpose(0, 1)
    grey = (strip.clamp(0, 1) * 255).round().byte()
    picture = Image.frombytes("L", (n * (width + gap), height), as_bytes(grey))
    sheet.image(picture, (x, y + NAME, n * TILE * (width + gap) / width, TILE))


def _tile(sheet: Sheet, name: str, x: float, y: float, right: bool, query: bool) -> None:
    """Draw the label and the frame of a drawing."""
    top = y + NAME
    ink = style.GOLD if right else style.INK
    frame = ink if right or query else style.RULE
    sheet.write(x + TILE / 2, top - 0.05, name, size=SIZE, ha="center", color=ink)
    line = 1.4 if right or query else 0.7
    sheet.rect((x, top, TILE, TILE), edge=frame, line=line)


def _box(sheet: Sheet, weight: float, x: float, y: float) -> None:
    ink = draw_cell(sheet, (x, y, TILE, BOX - 0.02), weight)
    middle = (x + TILE / 2, y + BOX / 2 - 0.01)
    sheet.write(*middle, f"{weight:.2f}", size=SMALL, color=ink, ha="center", middle=True)

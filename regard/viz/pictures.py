"""Pictures with attention maps: captions with a map per word, generated pictures with one per position.

Each panel repeats the picture, dimmed except where attention is high.

Figures 2 and 3 of Xu et al. Show, attend and tell. 2015. https://arxiv.org/abs/1502.03044
Figures 1 and 5 of Zhang, Goodfellow, Metaxas, Odena. Self-attention generative adversarial networks. 2018.
https://arxiv.org/abs/1805.08318
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.data.images import to_image
from regard.errors import ShapeError
from regard.viz import style
from regard.viz.sheet import Sheet, Title
from regard.viz.weights import Array, Weights, check_finite, to_array

MARGIN = 0.15  # inches, like all lengths
PANEL, APART, WORD = 1.35, 0.1, 0.27  # of captions: a picture, the space between two, the room for a word
COLUMNS = 7  # panels in a row
TILE, LARGE, GAP = 0.62, 1.15, 0.05  # of samples: a picture, one with marked positions, the space between
WORDS, SIZE = 9.5, 9.0  # points
DIM = 0.22  # brightness without attention


def draw_caption(
    picture: Any, words: Sequence[str], weights: Weights, *, title: str = "", path: str | Path
) -> Path:
    """Draw a (H, H, 3) picture of bytes and (T, L) weights over a square grid in row-major order. PNG or SVG.

    Each panel is scaled by its own largest weight.
    """
    pixels = to_array(picture, torch.uint8)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.shape[0] != pixels.shape[1] or pixels.numel() == 0:
        raise ShapeError(f"draw_caption: `picture` has shape {tuple(pixels.shape)}; expected (H, H, 3).")
    maps = _maps("draw_caption", weights, f"T={len(words)}", len(words), "word")
    columns = min(COLUMNS, len(words) + 1)
    rows = math.ceil((len(words) + 1) / columns)
    width = 2 * MARGIN + columns * PANEL + (columns - 1) * APART
    heading = Title.fit(title, width - 2 * MARGIN, MARGIN, 1.35)
    top = MARGIN + heading.height
    sheet = Sheet(width, top + rows * (PANEL + WORD) + MARGIN)
    heading.write(sheet)
    panels = [pixels, *(lit(pixels, seen) for seen in maps)]
    for number, (word, shown) in enumerate(zip(["", *map(style.label, words)], panels, strict=True)):
        row, column = divmod(number, columns)
        x, y = MARGIN + column * (PANEL + APART), top + row * (PANEL + WORD) + WORD
        sheet.image(to_image(shown), (x, y, PANEL, PANEL), smooth=len(pixels) >= 100)
        sheet.rect((x, y, PANEL, PANEL), edge=style.RULE, line=0.8)
        sheet.write(x + PANEL / 2, y - 4 / 72, word, size=WORDS, ha="center", kind="word")
    return sheet.save("draw_caption", path)


class Look(NamedTuple):
    """A picture, query positions in it, and their attention."""

    picture: Any  # (H, H, 3) bytes
    places: Sequence[tuple[float, float]]  # (down, right), from 0 to 1
    weights: Weights  # (Q, L) over a square grid, one row per position; brightness, scaled by the largest
    name: str


def draw_samples(
    pictures: Any,
    names: Sequence[str],
    looks: Sequence[Look] = (),
    *,
    title: str = "",
    path: str | Path,
) -> Path:
    """Draw (K, n, H, W, 3) bytes, n pictures for each of K named classes, and their attention. PNG or SVG.

    Above, one row per class. Below, each picture with marked positions, then once per position.
    """
    pixels = to_array(pictures, torch.uint8)
    if pixels.ndim != 5 or pixels.shape[-1] != 3 or len(pixels) != len(names) or pixels.numel() == 0:
        raise ShapeError(
            f"draw_samples: `pictures` has shape {tuple(pixels.shape)}; "
            f"expected (K={len(names)}, n, H, W, 3)."
        )
    counts = [len(look.places) for look in looks]
    maps = [
        _maps("draw_samples", look.weights, f"Q={n}", n, "place")
        for look, n in zip(looks, counts, strict=True)
    ]
    K, n = pixels.shape[:2]
    side = style.width([*names, *(look.name for look in looks)], SIZE) + 2 * GAP
    wide = max([n * (TILE + GAP), *((1 + len(each)) * (LARGE + GAP) for each in maps)]) - GAP
    heading = Title.fit(title, side + wide, MARGIN, 1.35)
    top = MARGIN + heading.height + (2 * GAP if heading.lines else 0)
    under = top + K * (TILE + GAP) + 2 * MARGIN  # top of the looks
    below = len(looks) * (LARGE + GAP) if looks else -2 * MARGIN
    sheet = Sheet(2 * MARGIN + side + wide, under + below + MARGIN)
    heading.write(sheet)

    def row(y: float, size: float, name: str, shown: Sequence[Array]) -> list[float]:
        sheet.write(MARGIN, y + size / 2, style.label(name), size=SIZE, middle=True)
        lefts = [MARGIN + side + i * (size + GAP) for i in range(len(shown))]
        for left, picture in zip(lefts, shown, strict=True):
            sheet.image(to_image(picture), (left, y, size, size))
        return lefts

    for k, name in enumerate(names):
        row(top + k * (TILE + GAP), TILE, name, list(pixels[k]))
    for k, (look, each) in enumerate(zip(looks, maps, strict=True)):
        picture, y = to_array(look.picture, torch.uint8), under + k * (LARGE + GAP)
        marked, *others = row(y, LARGE, look.name, [picture, *(lit(picture, weights) for weights in each)])
        for q, ((down, right), left) in enumerate(zip(look.places, others, strict=True)):
            colour = style.LINES[1 + q % (len(style.LINES) - 1)]
            for x in (marked, left):
                sheet.dot((x + right * LARGE, y + down * LARGE), 6, colour, edge="#ffffff", line=1.2)
    return sheet.save("draw_samples", path)


def _maps(owner: str, weights: Weights, rows: str, count: int, row: str) -> Array:
    """(count, L) -> (count, h, h)."""
    array = to_array(weights)
    side = math.isqrt(array.shape[-1]) if array.ndim == 2 else 0
    if array.ndim != 2 or len(array) != count or side * side != array.shape[1] or side == 0:
        raise ShapeError(
            f"{owner}: `weights` has shape {tuple(array.shape)}; expected ({rows}, L), a row for each {row} "
            "and L places of a square grid."
        )
    check_finite(owner, array)
    return array.reshape(-1, side, side)


def lit(pixels: Array, weights: Array) -> Array:
    """Dim a (H, H, 3) picture by (h, h) weights, interpolated bilinearly between grid centres."""
    H, h = len(pixels), len(weights)
    light = weights / max(float(weights.max()), 1e-12)
    at = ((torch.arange(H) + 0.5) * h / H - 0.5).clamp(0, h - 1)
    low = at.long()
    high, part = (low + 1).clamp(max=h - 1), (at - low)[:, None]
    down = light[low] * (1 - part) + light[high] * part  # (H, h)
    full = down[:, low] * (1 - part.T) + down[:, high] * part.T  # (H, H)
    return (pixels * (DIM + (1 - DIM) * full[..., None])).round().clamp(0, 255).byte()

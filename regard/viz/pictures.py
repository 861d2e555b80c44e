"""Generated pictures by class, and for chosen places of some of them where they look.

Above, one row a class. Below, a picture with its places marked, then the same picture once for each place:
bright where the place looked, as figures 1 and 5 of the paper show it.

Zhang, Goodfellow, Metaxas, Odena. Self-attention generative adversarial networks. 2018.
https://arxiv.org/abs/1805.08318
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from regard.errors import ShapeError
from regard.viz import style
from regard.viz.captions import lit
from regard.viz.files import check_ending, save
from regard.viz.weights import Weights, check_finite, to_array

TILE, LARGE, GAP, MARGIN = 0.62, 1.15, 0.05, 0.15  # inches
TITLE, SIZE = 11.0, 9.0  # points


class Look(NamedTuple):
    """A picture, places in it, and what each of them looked at."""

    picture: Any  # (H, H, 3) bytes
    places: Sequence[tuple[float, float]]  # down and right, from 0 to 1
    weights: Weights  # (Q, L) over a square grid, a row for each place; shown as light, scaled to its largest
    name: str


def draw_samples(
    pictures: Any,
    names: Sequence[str],
    looks: Sequence[Look] = (),
    *,
    title: str | None = None,
    path: str | Path,
) -> Path:
    """Draw (K, n, H, W, 3) bytes, n pictures of each of K named classes, and where some look. PNG or SVG."""
    path = check_ending("draw_samples", path)
    pixels = np.asarray(pictures)
    if pixels.ndim != 5 or pixels.shape[-1] != 3 or len(pixels) != len(names) or pixels.size == 0:
        raise ShapeError(
            f"draw_samples: `pictures` has shape {pixels.shape}; expected (K={len(names)}, n, H, W, 3)."
        )
    maps = [_maps(look) for look in looks]
    words = [title or "", *names, *(look.name for look in looks)]
    with style.look(words):
        return save(_compose(pixels, names, looks, maps, title or ""), path)


def _maps(look: Look) -> NDArray[np.float64]:
    """(Q, h, h)."""
    array = to_array(look.weights)
    side = math.isqrt(array.shape[-1]) if array.ndim == 2 else 0
    if array.ndim != 2 or len(array) != len(look.places) or side == 0 or side * side != array.shape[1]:
        raise ShapeError(
            f"draw_samples: `weights` has shape {array.shape}; expected (Q={len(look.places)}, L), a row for "
            "each place and L places of a square grid."
        )
    check_finite("draw_samples", array)
    return array.reshape(-1, side, side)


def _compose(
    pixels: NDArray[np.uint8],
    names: Sequence[str],
    looks: Sequence[Look],
    maps: Sequence[NDArray[np.float64]],
    title: str,
) -> Figure:
    K, n = pixels.shape[:2]
    side = style.width([*names, *(look.name for look in looks)], SIZE) + 2 * GAP
    wide = max([n * (TILE + GAP), *((1 + len(each)) * (LARGE + GAP) for each in maps)]) - GAP
    width = 2 * MARGIN + side + wide
    lines = style.wrap(title, TITLE, width - 2 * MARGIN) if title else []
    top = MARGIN + len(lines) * TITLE * 1.35 / 72 + (2 * GAP if lines else 0)
    under = top + K * (TILE + GAP) + 2 * MARGIN  # where the looks begin
    height = (under if looks else under - 2 * MARGIN) + len(looks) * (LARGE + GAP) + MARGIN
    figure = Figure(figsize=(width, height), dpi=style.DPI)

    def panel(x: float, y: float, size: float, shown: NDArray[np.uint8]) -> Axes:
        axes = figure.add_axes((x / width, 1 - (y + size) / height, size / width, size / height))
        axes.imshow(shown, interpolation="nearest", extent=(0, 1, 1, 0))
        axes.set(xticks=[], yticks=[])
        return axes

    def label(text: str, y: float) -> None:
        figure.text(MARGIN / width, 1 - y / height, style.label(text), size=SIZE, va="center")

    for number, line in enumerate(lines):
        y = 1 - (MARGIN + (number + 0.5) * TITLE * 1.35 / 72) / height
        figure.text(MARGIN / width, y, line, size=TITLE, va="center")
    for row, name in enumerate(names):
        y = top + row * (TILE + GAP)
        label(name, y + TILE / 2)
        for column in range(n):
            panel(MARGIN + side + column * (TILE + GAP), y, TILE, pixels[row, column])
    for row, (look, each) in enumerate(zip(looks, maps, strict=True)):
        y = under + row * (LARGE + GAP)
        label(look.name, y + LARGE / 2)
        picture = np.asarray(look.picture)
        marked = panel(MARGIN + side, y, LARGE, picture)
        for q, (place, weights) in enumerate(zip(look.places, each, strict=True)):
            colour = style.LINES[1 + q % (len(style.LINES) - 1)]
            axes = panel(MARGIN + side + (1 + q) * (LARGE + GAP), y, LARGE, lit(picture, weights))
            for where in (marked, axes):
                where.plot(place[1], place[0], "o", ms=6, mfc=colour, mec="white", mew=1.2)
    return figure

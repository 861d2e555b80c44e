"""Scenes of coloured shapes, each with one sentence, drawn from nothing but their numbers.

    a red circle above a blue square left of a green cross

A scene is a dark square of 3 × 3 cells. Two or three cells hold a coloured shape, others may hold a grey one
that the sentence passes over. The sentence names the coloured ones in reading order; `left of` joins two of
one row, `above` two of different rows. Every pixel's owner is known, so it can be checked whether attention
lies on what is named.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.counter_rng import random_words, unit
from regard.data.images import Pixels

COLOURS = {
    "red": (225, 60, 50),
    "green": (60, 180, 75),
    "blue": (65, 105, 235),
    "yellow": (250, 220, 60),
    "purple": (165, 75, 200),
    "white": (245, 245, 245),
}
GREY = (128, 128, 128)
SHAPES = ("circle", "square", "triangle", "cross", "diamond")
CELLS, CELL = 3, 16  # cells a side, pixels a cell
SIDE = CELLS * CELL

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Scenes:
    """B scenes of up to N things, the named ones first and in the order of their naming."""

    named: NDArray[np.int64]  # (B,) how many things the sentence names
    count: NDArray[np.int64]  # (B,) how many things there are
    colours: NDArray[np.int64]  # (B, N) numbers of COLOURS; nothing for grey things
    shapes: NDArray[np.int64]  # (B, N) numbers of SHAPES
    cells: NDArray[np.int64]  # (B, N) from the upper left, row by row
    centres: Floats  # (B, N, 2) pixels down and right
    radii: Floats  # (B, N)
    grain: Floats  # (B, 2) brightness of the ground, amount of noise

    def __len__(self) -> int:
        return len(self.named)

    @cached_property
    def cover(self) -> Floats:
        """(B, N, SIDE, SIDE) how much of each pixel a thing covers, from 0 to 1."""
        pixel = np.arange(SIDE, dtype=np.float32) + 0.5
        y = (pixel[:, None] - self.centres[:, :, 0, None, None]) / self.radii[..., None, None]
        x = (pixel - self.centres[:, :, 1, None, None]) / self.radii[..., None, None]
        there = np.arange(self.shapes.shape[1]) < self.count[:, None]
        cover = np.zeros((*self.shapes.shape, SIDE, SIDE), dtype=np.float32)
        for number, inside in enumerate(_INSIDE):
            here = (self.shapes == number) & there
            cover[here] = np.clip(inside(y[here], x[here]) * self.radii[here][:, None, None] + 0.5, 0, 1)
        return cover

    def pictures(self) -> Pixels:
        """(B, SIDE, SIDE, 3)."""
        palette = np.array([*COLOURS.values(), GREY], dtype=np.float32)
        grey = np.arange(self.shapes.shape[1]) >= self.named[:, None]
        paint = palette[np.where(grey, len(COLOURS), self.colours)]
        canvas = np.broadcast_to(self.grain[:, :1, None, None], (len(self), SIDE, SIDE, 3)).copy()
        for n in range(self.shapes.shape[1]):
            cover = self.cover[:, n, :, :, None]
            canvas += cover * (paint[:, n, None, None] - canvas)
        # a fixed pattern of noise, turned by the scene's own amount: cheap, and different in every scene
        canvas += self.grain[:, 1, None, None, None] * _NOISE
        return canvas.round().clip(0, 255).astype(np.uint8)

    def sentence(self, scene: int) -> str:
        """What is said of one scene."""
        words = []
        for n in range(int(self.named[scene])):
            if n:
                same = self.cells[scene, n] // CELLS == self.cells[scene, n - 1] // CELLS
                words.append("left of" if same else "above")
            words.append(f"a {self.colour(scene, n)} {SHAPES[self.shapes[scene, n]]}")
        return " ".join(words)

    def colour(self, scene: int, thing: int) -> str:
        """The word for a thing's colour."""
        return tuple(COLOURS)[self.colours[scene, thing]]

    def find(self, scene: int, colour: str, shape: str) -> int | None:
        """The named thing of this colour and shape; no scene has two."""
        for n in range(int(self.named[scene])):
            if (self.colour(scene, n), SHAPES[self.shapes[scene, n]]) == (colour, shape):
                return n
        return None

    def mask(self, scene: int, thing: int) -> NDArray[np.bool_]:
        """(SIDE, SIDE) the pixels of one thing."""
        return self.cover[scene, thing] > 0.5


# how deep inside a shape of radius 1 a point lies, roughly: negative outside; in the order of SHAPES
_INSIDE: tuple[Callable[[Any, Any], Any], ...] = (
    lambda y, x: 1 - np.sqrt(y * y + x * x),
    lambda y, x: 0.85 - np.maximum(abs(y), abs(x)),
    lambda y, x: np.minimum(0.75 - y, (y + 1.05) / 2.1 - abs(x) / 1.05),
    lambda y, x: np.maximum(np.minimum(1 - abs(y), 0.34 - abs(x)), np.minimum(1 - abs(x), 0.34 - abs(y))),
    lambda y, x: (1.05 - abs(y) - abs(x)) * 0.71,
)
_NOISE: Floats = (
    unit(random_words("noise", np.arange(SIDE * SIDE), 3)).reshape(SIDE, SIDE, 3) * 2 - 1
)  # (SIDE, SIDE, 3)


def draw_scenes(key: str, examples: NDArray[np.int64], *, fewest: int, most: int, clutter: int) -> Scenes:
    """(B,) example numbers -> the scenes, a function of key and number alone.

    `fewest` to `most` things are named, up to `clutter` grey ones stand between them.
    """
    B, N, pairs = len(examples), most + clutter, len(COLOURS) * len(SHAPES)
    drawn = unit(random_words(key, examples, 4 + CELLS**2 + pairs + 4 * N))
    head, drawn = drawn[:, :4], drawn[:, 4:]
    named = fewest + (head[:, 0] * (most - fewest + 1)).astype(np.int64)
    count = named + (head[:, 1] * (clutter + 1)).astype(np.int64)
    cells = drawn[:, : CELLS**2].argsort(1)[:, :N]
    pair = drawn[:, CELLS**2 : CELLS**2 + pairs].argsort(1)[:, :N]  # no two things are alike
    # the named things in reading order, then the others
    order = np.where(np.arange(N) < named[:, None], cells, CELLS**2 + np.arange(N)).argsort(1)
    cells = np.take_along_axis(cells, order, 1)
    rest = drawn[:, CELLS**2 + pairs :].reshape(B, N, 4)
    middle = np.stack([cells // CELLS, cells % CELLS], -1) * CELL + CELL / 2
    centres = (middle + (rest[..., :2] - 0.5) * 3).astype(np.float32)
    radii = (5.6 + rest[..., 2] * 1.2).astype(np.float32)
    grain = np.stack([25 + head[:, 2] * 35, head[:, 3] * 16 - 8], -1).astype(np.float32)
    return Scenes(named, count, pair // len(SHAPES), pair % len(SHAPES), cells, centres, radii, grain)

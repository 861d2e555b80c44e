"""Scenes of coloured shapes, each with one sentence, each a function of its number.

    a red circle above a blue square left of a green cross

A scene is a dark square of 3 × 3 cells. Two or three cells hold a coloured shape; others may hold a grey
distractor, which the sentence does not mention. The sentence names the coloured ones in reading order:
`left of` joins two in the same row, `above` two in different rows. It is known which shape each pixel belongs
to, so it can be checked whether attention is on what is named.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

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


@dataclass(frozen=True, eq=False)
class Scenes:
    """B scenes of up to N things, the named ones first, in the order in which they are named."""

    named: Tensor  # (B,) how many things the sentence names
    count: Tensor  # (B,) how many things there are
    colours: Tensor  # (B, N) indices into COLOURS; ignored for grey things
    shapes: Tensor  # (B, N) indices into SHAPES
    cells: Tensor  # (B, N) from the upper left, row by row
    centres: Tensor  # (B, N, 2) pixels down and right
    radii: Tensor  # (B, N)
    grain: Tensor  # (B, 2) brightness of the background, amplitude of the noise

    def __len__(self) -> int:
        return len(self.named)

    @cached_property
    def cover(self) -> Tensor:
        """(B, N, SIDE, SIDE) how much of each pixel a thing covers, from 0 to 1."""
        pixel = torch.arange(SIDE, dtype=torch.float32) + 0.5
        y = (pixel[:, None] - self.centres[:, :, 0, None, None]) / self.radii[..., None, None]
        x = (pixel - self.centres[:, :, 1, None, None]) / self.radii[..., None, None]
        there = torch.arange(self.shapes.shape[1]) < self.count[:, None]
        cover = self.radii.new_zeros(*self.shapes.shape, SIDE, SIDE)
        for number, inside in enumerate(_INSIDE):
            here = (self.shapes == number) & there
            cover[here] = (inside(y[here], x[here]) * self.radii[here][:, None, None] + 0.5).clamp(0, 1)
        return cover

    def pictures(self) -> Pixels:
        """(B, SIDE, SIDE, 3)."""
        palette = torch.tensor([*COLOURS.values(), GREY], dtype=torch.float32)
        grey = torch.arange(self.shapes.shape[1]) >= self.named[:, None]
        paint = palette[self.colours.masked_fill(grey, len(COLOURS))]
        canvas = self.grain[:, :1, None, None].repeat(1, SIDE, SIDE, 3)
        for n in range(self.shapes.shape[1]):
            cover = self.cover[:, n, :, :, None]
            canvas += cover * (paint[:, n, None, None] - canvas)
        # one fixed noise pattern, scaled for each scene: cheap, and different in every scene
        canvas += self.grain[:, 1, None, None, None] * _NOISE
        return canvas.round().clamp(0, 255).byte()

    def sentence(self, scene: int) -> str:
        """The sentence of one scene."""
        words, rows = [], (self.cells[scene] // CELLS).tolist()
        for n, thing in enumerate(self.things[scene]):
            if n:
                words.append("left of" if rows[n] == rows[n - 1] else "above")
            words.append("a " + " ".join(thing))
        return " ".join(words)

    @cached_property
    def things(self) -> list[list[tuple[str, str]]]:
        """For each scene the colour and shape of the named things."""
        names, numbers = tuple(COLOURS), torch.stack([self.colours, self.shapes], -1).tolist()
        named = zip(numbers, self.named.tolist(), strict=True)
        return [[(names[colour], SHAPES[shape]) for colour, shape in each[:n]] for each, n in named]

    def find(self, scene: int, colour: str, shape: str) -> int | None:
        """The named thing of this colour and shape; no scene has two."""
        things = self.things[scene]
        return things.index((colour, shape)) if (colour, shape) in things else None

    def mask(self, scene: int, thing: int) -> Tensor:
        """(SIDE, SIDE) the pixels of one thing."""
        return self.cover[scene, thing] > 0.5


# approximate distance of a point inside a shape of radius 1 from its edge, negative outside; as in SHAPES
_INSIDE: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    lambda y, x: 1 - (y * y + x * x).double().sqrt().float(),  # a float32 root varies in its last bit
    lambda y, x: 0.85 - torch.maximum(abs(y), abs(x)),
    lambda y, x: torch.minimum(0.75 - y, (y + 1.05) / 2.1 - abs(x) / 1.05),
    lambda y, x: torch.maximum(
        torch.minimum(1 - abs(y), 0.34 - abs(x)), torch.minimum(1 - abs(x), 0.34 - abs(y))
    ),
    lambda y, x: (1.05 - abs(y) - abs(x)) * 0.71,
)
_NOISE = unit(random_words("noise", range(SIDE * SIDE), 3)).view(SIDE, SIDE, 3) * 2 - 1


def draw_scenes(key: str, examples: Sequence[int], *, fewest: int, most: int, clutter: int) -> Scenes:
    """(B,) example numbers -> the scenes, a function of key and number alone.

    `fewest` to `most` things are named; up to `clutter` grey ones are added.
    """
    B, N, pairs = len(examples), most + clutter, len(COLOURS) * len(SHAPES)
    drawn = unit(random_words(key, examples, 4 + CELLS**2 + pairs + 4 * N))
    head, drawn = drawn[:, :4], drawn[:, 4:]
    named = fewest + (head[:, 0] * (most - fewest + 1)).long()
    count = named + (head[:, 1] * (clutter + 1)).long()
    cells = drawn[:, : CELLS**2].argsort(dim=1, stable=True)[:, :N]
    pair = drawn[:, CELLS**2 : CELLS**2 + pairs].argsort(dim=1, stable=True)[:, :N]  # no two things are alike
    # the named things in reading order, then the others
    order = torch.where(torch.arange(N) < named[:, None], cells, CELLS**2 + torch.arange(N)).argsort(1)
    cells = cells.gather(1, order)
    rest = drawn[:, CELLS**2 + pairs :].reshape(B, N, 4)
    middle = torch.stack([cells // CELLS, cells % CELLS], -1).float() * CELL + CELL / 2
    centres = middle + (rest[..., :2] - 0.5) * 3
    radii = 5.6 + rest[..., 2] * 1.2
    grain = torch.stack([25 + head[:, 2] * 35, head[:, 3] * 16 - 8], -1)
    return Scenes(named, count, pair // len(SHAPES), pair % len(SHAPES), cells, centres, radii, grain)

"""Positions, added to the words: attention alone does not see order.

    PE(pos, 2i)   = sin(pos / 10000^(2i / d))                          (section 3.5)
    PE(pos, 2i+1) = cos(pos / 10000^(2i / d))

    paper     here
    pos       position, counted from 0
    d_model   dim
    PE        table     (positions, dim)

Each pair of columns is a clock hand of its own speed, with wavelengths from 2π to 10000 · 2π. PE(pos + k) is
PE(pos) with every hand turned by its own angle, so a fixed distance is a fixed linear map. The learned table
(Gehring et al. 2017) is row E of the paper's table 3.

Vaswani et al. Attention is all you need. 2017. https://arxiv.org/abs/1706.03762
Gehring, Auli, Grangier, Yarats, Dauphin. Convolutional sequence to sequence learning. 2017.
https://arxiv.org/abs/1705.03122
"""

import math

import torch
from torch import Tensor, nn

from regard.catalog import card
from regard.errors import ShapeError

TABLE = 512  # precomputed positions; later ones are computed on demand


class Positions(nn.Module):
    """Adds a vector to each word, for positions offset, offset + 1, …"""

    def forward(self, words: Tensor, offset: int = 0) -> Tensor:
        """(..., T, dim) -> (..., T, dim)."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward(words, offset).")


@card(
    "layer",
    "sinusoidal-positions",
    title="Sinusoidal positions",
    authors="Vaswani et al.",
    year=2017,
    link="https://arxiv.org/abs/1706.03762",
    sentence="Sines and cosines of many wavelengths, added to the words, tell attention where each stands.",
)
class SinusoidalPositions(Positions):
    """The fixed table of sines and cosines; any length."""

    table: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.register_buffer("table", sinusoids(TABLE, dim), persistent=False)

    def forward(self, words: Tensor, offset: int = 0) -> Tensor:
        end = offset + words.shape[-2]
        if end <= TABLE:
            return words + self.table[offset:end]
        return words + sinusoids(end, self.dim, first=offset).to(self.table)


class LearnedPositions(Positions):
    """A learnt vector for each position, up to `longest`."""

    def __init__(self, dim: int, *, longest: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(longest, dim))
        nn.init.normal_(self.table, std=dim**-0.5)

    def forward(self, words: Tensor, offset: int = 0) -> Tensor:
        end = offset + words.shape[-2]
        if end > len(self.table):
            raise ShapeError(
                f"LearnedPositions: `words` has position {end - 1}; expected positions below longest="
                f"{len(self.table)}. Sinusoidal positions have no end."
            )
        return words + self.table[offset:end]


class NoPositions(Positions):
    """Adds nothing: the encoder then sees a set of words."""

    def forward(self, words: Tensor, offset: int = 0) -> Tensor:
        return words


def sinusoids(positions: int, dim: int, *, first: int = 0) -> Tensor:
    """(positions - first, dim) the paper's table, from its row `first` on."""
    position = torch.arange(first, positions, dtype=torch.float64)[:, None]
    speeds = torch.exp(torch.arange(0, dim, 2, dtype=torch.float64) * (-math.log(10000.0) / dim))
    angles = position * speeds  # (positions, dim / 2, rounded up)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :dim].float()

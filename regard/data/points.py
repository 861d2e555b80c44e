"""Point sets as batches, and random point sets that are functions of their numbers.

To a decoder a batch looks like sentence pairs. Position 0 of the source is the end symbol, positions 1 … n
are the points. In the target, position p is the id p + 3, and position 0 is eos:

    number     0     1     2     3     4         5
               pad   bos   eos   unk   point 0   point 1   …
    position               0           1         2         …
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.data.batches import PairBatch
from regard.data.counter_rng import high_bits, random_words, unit
from regard.data.geometry import QUESTIONS, check_points
from regard.data.tokens import EOS, PAD, SPECIAL
from regard.errors import DataError

Spread = Literal["uniform", "log-uniform"]
FIRST = len(SPECIAL)  # the id of point 0
SHIFT = FIRST - 1  # from a point's position to its id
CHUNK = 2048  # sets solved at a time


@dataclass(frozen=True)
class PointBatch(PairBatch):
    """Point sets and their answers. The lengths define the padding, never a value.

    `source` is (B, 1 + N, D): zeros for the end symbol, then the points; `source_lengths` are 1 + n.
    """

    def rounded(self) -> Self:
        """Padded to one of few shapes: steps to a multiple of 4; training sets all have one width already."""
        return replace(self, target=F.pad(self.target, (0, -self.target.shape[1] % 4), value=PAD))


def point_batch(points: Tensor, sizes: Tensor, answers: Tensor, *, width: int | None = None) -> PointBatch:
    """(B, N, D) points, (B,) sizes, (B, M) answers padded with -1 -> a batch.

    It is as wide as its largest set, or has room for `width` points.
    """
    N = int(sizes.max()) if width is None else width
    lengths = (answers >= 0).sum(1)
    T = int(lengths.max()) + 1
    target = F.pad(answers, (0, 1), value=-1)[:, :T] + FIRST
    step = torch.arange(T)
    target[step == lengths[:, None]] = EOS
    target[step > lengths[:, None]] = PAD
    padding = torch.arange(N) >= sizes[:, None]
    source = F.pad(points[:, :N].float().masked_fill(padding[..., None], 0), (0, 0, 1, 0))
    return PointBatch(source, sizes + 1, target, lengths + 1)


def own_batch(sets: Sequence[Tensor]) -> PointBatch:
    """A batch of sets of (n, D) points without answers."""
    if not sets:
        raise DataError("own_batch: `sets` has no point set; expected one or more.")
    for number, each in enumerate(sets):
        check_points(f"own_batch, set {number}", each, dimension=sets[0].shape[-1])
    sizes = torch.tensor([len(each) for each in sets])
    points = pad_sequence([each.float() for each in sets], batch_first=True)
    return point_batch(points, sizes, torch.full((len(sets), 0), -1))


def positions(numbers: Tensor) -> Tensor:
    """Ids -> positions in the source: eos, like every id that is not a point, is position 0."""
    return (numbers - SHIFT).clamp(min=0)


def points_of(tokens: Sequence[int]) -> list[int]:
    """Decoded ids -> point indices from 0."""
    return [token - FIRST for token in tokens]


@dataclass(frozen=True)
class PointSets:
    """An endless supply of random sets, uniform in the unit square, with the answers to one question.

    Sizes are uniform; or log-uniform, with p(n) = log((n + 1) / n) / log((longest + 1) / shortest), so that
    each doubling of the size has the same share.
    """

    question: str
    key: str  # names the random stream
    shortest: int
    longest: int
    spread: Spread = "uniform"

    def points(self, examples: Tensor) -> tuple[Tensor, Tensor]:
        """(B,) example numbers -> (B, N, D) points, (B,) sizes from shortest to longest."""
        D = QUESTIONS[self.question].dimension
        drawn = random_words(self.key, examples, 1 + self.longest * D)
        return unit(drawn[:, 1:]).view(-1, self.longest, D), self._sizes(drawn[:, 0])

    def sizes(self, examples: Tensor) -> Tensor:
        """(B,) example numbers -> (B,) sizes alone."""
        return self._sizes(random_words(self.key, examples, 1)[:, 0])

    def _sizes(self, words: Tensor) -> Tensor:
        """(B,) random words -> (B,) sizes."""
        drawn = high_bits(words, 32)
        if self.spread == "uniform":
            return drawn % (self.longest - self.shortest + 1) + self.shortest
        # the CDF: the shares of sizes below shortest + 1, below shortest + 2, …
        above = (torch.arange(self.shortest + 1, self.longest + 1, dtype=torch.float64) / self.shortest).log()
        cuts = above / log((self.longest + 1) / self.shortest)
        return self.shortest + torch.searchsorted(cuts, drawn.double() * 2.0**-32, right=True)

    def answers(self, examples: Tensor) -> Tensor:
        """(B,) example numbers -> (B, M) answers padded with -1."""
        solve = QUESTIONS[self.question].solve
        return torch.cat([solve(*self.points(some)) for some in torch.split(examples, CHUNK)])

    @property
    def width(self) -> int:
        """Length of the longest possible answer."""
        return QUESTIONS[self.question].longest(self.longest)

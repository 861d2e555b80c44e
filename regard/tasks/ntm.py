"""The five tasks of the Neural Turing Machine paper, each with its generator (section 4).

    task             the machine reads                                   and answers
    copy             L vectors of 8 bits, an end flag, L silent steps    the vectors
    repeat-copy      L vectors, the end flag with the number of copies   all copies, then an end marker
    associative-     items of 3 vectors of 6 bits behind delimiters,     the item that followed it
      recall         then one of them between query flags
    ngrams           200 bits, each drawn by the 5 before it             at every step, the next bit
    priority-sort    20 vectors, each with a priority in [-1, 1]         the 16 of highest priority, in order

    P(1 | c) = (N_1 + 1/2) / (N_0 + N_1 + 1)        the best predictor of n-grams, from the counts so far of
                                                    the bits after the context c (equation 10)

The number of copies is normalised to mean 0 and variance 1 over the trained range. The table of an n-gram
source has one probability for each context, from Beta(1/2, 1/2): sin²(π u / 2) of a uniform u. The first five
bits are fair. A sequence may be longer than a machine's memory; its tape is then a ring.

Graves, Wayne, Danihelka. Neural Turing machines. 2014. https://arxiv.org/abs/1410.5401
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from regard import catalog
from regard.data.bits import BitBatch
from regard.errors import ConfigError, check_range
from regard.tasks.bits import BitTask, GrowingTask, Shape

card = partial(
    catalog.card,
    "task",
    authors="Graves, Wayne, Danihelka",
    year=2014,
    link="https://arxiv.org/abs/1410.5401",
)


@dataclass(frozen=True, kw_only=True)
class CopySettings:
    """The paper's sizes. `train` sequences make an epoch; `test` is for each tested length."""

    bits: int = 8
    shortest: int = 1
    longest: int = 20
    tested: tuple[int, ...] = (20, 10, 30, 40, 60, 80, 120)
    curriculum: int = 0  # epochs until the longest sequences come; 0: from the start
    until: float = 0.0  # the loss of an epoch after which the curriculum goes on; 0: any
    train: int = 10_000
    valid: int = 320
    test: int = 64
    seed: int = 1


@card(
    "copy",
    title="Copy",
    sentence="Read vectors of bits, then write them down; tested on sequences far longer than trained.",
)
class CopyTask(GrowingTask):
    """Write down what was read."""

    Settings = CopySettings
    name = "copy"
    units = ("length",)
    ranges = (("shortest", "longest"),)

    def sizes(self) -> dict[str, int]:
        return {"inputs": self.settings.bits + 1, "outputs": self.settings.bits}

    def needs(self, shape: Shape) -> int:
        return shape[0] * self.settings.bits

    def draw(self, shape: Shape, chance: Tensor) -> BitBatch:
        return self.pose(torch.unflatten(coins(chance), 1, (shape[0], self.settings.bits)))

    def pose(self, vectors: Tensor) -> BitBatch:
        """(B, L, bits) vectors -> what the machine reads, and should write."""
        L = vectors.shape[1]
        inputs = F.pad(vectors, (0, 1, 0, L + 1))  # (B, 2L + 1, bits + 1)
        inputs[:, L, -1] = 1.0
        return answered(inputs, vectors)


@dataclass(frozen=True, kw_only=True)
class RepeatCopySettings:
    """The paper's sizes; `tested` has (length, copies)."""

    bits: int = 8
    shortest: int = 1
    longest: int = 10
    fewest: int = 1
    most: int = 10
    tested: tuple[tuple[int, int], ...] = ((10, 10), (20, 10), (10, 20))
    curriculum: int = 0
    until: float = 0.0
    train: int = 10_000
    valid: int = 400
    test: int = 64
    seed: int = 1


@card(
    "repeat-copy",
    title="Repeat copy",
    sentence="Write a sequence as many times as requested, then an end marker.",
)
class RepeatCopyTask(GrowingTask):
    """Write down what was read as often as was asked, then say that it is over.

    Its curriculum begins with one copy of every length, then adds copies.
    """

    Settings = RepeatCopySettings
    name = "repeat-copy"
    units = ("length", "copies")
    ranges = (("shortest", "longest"), ("fewest", "most"))

    def sizes(self) -> dict[str, int]:
        return {"inputs": self.settings.bits + 2, "outputs": self.settings.bits + 1}

    def trained(self) -> list[Shape]:
        return sorted(super().trained(), key=lambda shape: shape[::-1])

    def needs(self, shape: Shape) -> int:
        return shape[0] * self.settings.bits

    def draw(self, shape: Shape, chance: Tensor) -> BitBatch:
        L, C = shape
        vectors = torch.unflatten(coins(chance), 1, (L, self.settings.bits))
        inputs = F.pad(vectors, (0, 2, 0, 1 + L * C + 1))
        inputs[:, L, -2] = 1.0
        inputs[:, L, -1] = self.normalised(C)
        targets = F.pad(vectors.repeat(1, C, 1), (0, 1, 0, 1))
        targets[:, -1, -1] = 1.0  # the end marker
        return answered(inputs, targets)

    def normalised(self, copies: int) -> float:
        """The number of copies as the machine reads it: mean 0 and variance 1 over the trained range."""
        low, high = self.settings.fewest, self.settings.most
        deviation = math.sqrt(((high - low + 1) ** 2 - 1) / 12)
        return (copies - (low + high) / 2) / (deviation or 1.0)


@dataclass(frozen=True, kw_only=True)
class AssociativeRecallSettings:
    """The paper's sizes; `fewest` and `most` count items."""

    bits: int = 6
    item: int = 3  # vectors
    fewest: int = 2
    most: int = 6
    tested: tuple[int, ...] = (10, 6, 8, 12, 15, 20)
    curriculum: int = 0
    until: float = 0.0
    train: int = 10_000
    valid: int = 320
    test: int = 128
    seed: int = 1


@card(
    "associative-recall",
    title="Associative recall",
    sentence="Read a list of items; then one of them is shown again, and the network must give the next one.",
)
class AssociativeRecallTask(GrowingTask):
    """Given one item of a list, the next."""

    Settings = AssociativeRecallSettings
    name = "associative-recall"
    units = ("items",)
    ranges = (("fewest", "most"),)
    least = 2  # one to follow another
    sized = ("bits", "item")

    def check(self, shape: Shape) -> None:
        if shape[0] < 2:
            raise ConfigError(
                f"associative-recall: `tested` has {shape[0]} item; "
                "expected 2 or more, one to follow another."
            )

    def sizes(self) -> dict[str, int]:
        return {"inputs": self.settings.bits + 2, "outputs": self.settings.bits}

    def needs(self, shape: Shape) -> int:
        return shape[0] * self.settings.item * self.settings.bits + 1

    def draw(self, shape: Shape, chance: Tensor) -> BitBatch:
        [K] = shape
        V, bits = self.settings.item, self.settings.bits
        asked = (chance[:, 0] * (K - 1)).long()  # the last item has no next
        return self.pose(torch.unflatten(coins(chance[:, 1:]), 1, (K, V, bits)), asked)

    def pose(self, items: Tensor, asked: Tensor) -> BitBatch:
        """(B, K, V, bits) items, (B,) which is shown again -> what the machine reads, and should write."""
        V, bits = items.shape[-2:]
        each = torch.arange(len(asked))
        shown = F.pad(items, (0, 2, 1, 0))  # a delimiter stands before every item
        shown[:, :, 0, bits] = 1.0
        query = F.pad(items[each, asked], (0, 2, 1, 1 + V))  # flag, item, flag, silence
        query[:, (0, V + 1), bits + 1] = 1.0
        return answered(torch.cat([shown.flatten(1, 2), query], 1), items[each, asked + 1])


@dataclass(frozen=True, kw_only=True)
class NGramSettings:
    """The paper's sizes: 6-grams, so a context of 5 bits."""

    context: int = 5
    length: int = 200
    tested: tuple[int, ...] = (200,)
    train: int = 10_000
    valid: int = 256
    test: int = 1000
    seed: int = 1


@card(
    "ngrams",
    title="Dynamic n-grams",
    sentence="Predict the bits of a source whose table must be learnt while reading; the optimum is known.",
)
class NGramTask(BitTask):
    """Predict every bit of a source whose table has to be learnt while reading it."""

    Settings = NGramSettings
    name = "ngrams"
    units = ("length",)
    ranges = (("length", "length"),)
    sized = ("context", "length")

    def sizes(self) -> dict[str, int]:
        return {"inputs": 1, "outputs": 1}

    def needs(self, shape: Shape) -> int:
        return 2**self.settings.context + shape[0]

    def draw(self, shape: Shape, chance: Tensor) -> BitBatch:
        n = self.settings.context
        table = (math.pi / 2 * chance[:, : 2**n]).sin() ** 2  # Beta(1/2, 1/2)
        coin = chance[:, 2**n :]
        bits = torch.zeros(coin.shape, dtype=torch.long)
        for t in range(shape[0]):
            probability = table.gather(1, self._context(bits, t)[:, None])[:, 0]
            bits[:, t] = coin[:, t] < (probability if t >= n else 0.5)
        targets = bits.float()[..., None]
        inputs = F.pad(targets[:, :-1], (0, 0, 1, 0))  # each bit is predicted from those before it
        return BitBatch(inputs, targets, torch.ones(targets.shape[:2], dtype=torch.bool))

    def optimum(self, batch: BitBatch) -> Tensor:
        """Equation 10, with one bit for each of the first five."""
        n = self.settings.context
        bits = batch.targets[..., 0].long()
        B, T = bits.shape
        seen = torch.full((B, 2**n, 2), 0.5, dtype=torch.float64)
        cost, each = torch.zeros(B, dtype=torch.float64), torch.arange(B)
        for t in range(T):
            if t < n:
                cost += 1.0
                continue
            context = self._context(bits, t)
            counts = seen[each, context]  # (B, 2)
            cost -= (counts[each, bits[:, t]] / counts.sum(1)).log2()
            seen[each, context, bits[:, t]] += 1.0
        return cost

    def _context(self, bits: Tensor, t: int) -> Tensor:
        """(B, T) -> (B,) the bits before t as the number of a table's row; fewer at the start."""
        before = bits[:, max(t - self.settings.context, 0) : t]
        return (before << torch.arange(before.shape[1])).sum(1)


@dataclass(frozen=True, kw_only=True)
class PrioritySortSettings:
    """The paper's sizes."""

    bits: int = 8
    length: int = 20
    kept: int = 16
    tested: tuple[int, ...] = (20,)
    train: int = 10_000
    valid: int = 256
    test: int = 1000
    seed: int = 1


@card(
    "priority-sort",
    title="Priority sort",
    sentence="Twenty vectors with priorities: write the sixteen highest, in order.",
)
class PrioritySortTask(BitTask):
    """The vectors of highest priority, highest first."""

    Settings = PrioritySortSettings
    name = "priority-sort"
    units = ("length",)
    ranges = (("length", "length"),)

    def __init__(self, settings: PrioritySortSettings) -> None:
        super().__init__(settings)
        check_range(self.name, settings, "kept", "length")

    def check(self, shape: Shape) -> None:
        if shape[0] < self.settings.kept:
            raise ConfigError(
                f"priority-sort: `tested` has length {shape[0]}; "
                f"expected at least `kept`, {self.settings.kept}."
            )

    def sizes(self) -> dict[str, int]:
        return {"inputs": self.settings.bits + 2, "outputs": self.settings.bits}

    def needs(self, shape: Shape) -> int:
        return shape[0] * (self.settings.bits + 1)

    def draw(self, shape: Shape, chance: Tensor) -> BitBatch:
        [L] = shape
        K, bits = self.settings.kept, self.settings.bits
        priority = (2 * chance[:, :L] - 1).float()  # (B, L)
        vectors = torch.unflatten(coins(chance[:, L:]), 1, (L, bits))
        inputs = F.pad(torch.cat([vectors, priority[..., None]], -1), (0, 1, 0, 1 + K))
        inputs[:, L, -1] = 1.0
        best = priority.argsort(1, descending=True)[:, :K, None].expand(-1, -1, bits)
        return answered(inputs, vectors.gather(1, best))


def coins(chance: Tensor) -> Tensor:
    """Uniform numbers as fair bits."""
    return (chance < 0.5).float()


def answered(inputs: Tensor, answer: Tensor) -> BitBatch:
    """(B, T, I) and the answer to the last (B, A, O) steps; only those count."""
    B, T, _ = inputs.shape
    A = answer.shape[1]
    counted = torch.zeros(B, T, dtype=torch.bool)
    counted[:, T - A :] = True
    return BitBatch(inputs, F.pad(answer, (0, 0, T - A, 0)), counted)

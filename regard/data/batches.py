"""Sentence pairs to batches: plans of similar lengths, padding, tensors.

The size of a batch is what it fills in memory: rows × (longest source + longest target), padding counted.
In training, lengths count in steps of four: a batch holds sentences of one step, or of neighbouring ones, and
a recorded step (see regard/train/capture.py) pads no more than what was counted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.tensor_batch import TensorBatch
from regard.data.tokens import EOS, PAD
from regard.errors import ConfigError, DataError

ROUND_LENGTHS, ROUND_ROWS = 4, 8  # what the shapes of rounded batches are multiples of
POOL = 1 << 15  # examples among which a batch finds its like
CHUNK = 1 << 12  # batches that are moved at a time
DRAWN = 1 << 18  # random numbers that are drawn at a time
SHARE = 1 << 21  # examples that are sorted at once by their random numbers

Room = Callable[[str, int], npt.NDArray[np.integer[Any]]]  # an array for a plan: its name, its size


class LengthTable:
    """The lengths of examples that are too many for an array; a subclass finds them."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.integer[Any]]:
        """(N, 2) source and target lengths of these rows."""
        raise NotImplementedError


Lengths = Sequence[tuple[int, int]] | npt.NDArray[np.integer[Any]] | LengthTable  # (N, 2): source, target


@dataclass(frozen=True)
class PairBatch(TensorBatch):
    """Sentence pairs as numbers. Padding is told by the lengths, never by a value."""

    source: Tensor  # (B, S)
    source_lengths: Tensor  # (B,)
    target: Tensor  # (B, T), closed by eos
    target_lengths: Tensor  # (B,) eos counted

    def repeated(self, times: int) -> Self:
        """All pairs, then all of them again, so many times in a row."""
        copies = {f.name: torch.cat([getattr(self, f.name)] * times) for f in fields(self)}
        return type(self)(**copies)

    def turned(self, rows: Tensor) -> "PairBatch":
        """The same pairs, with source and target exchanged in the rows where `rows` (B,) is true."""
        longest = max(self.source.shape[1], self.target.shape[1])
        source, target = (
            F.pad(side, (0, longest - side.shape[1]), value=PAD) for side in (self.source, self.target)
        )
        sources = torch.where(rows, self.target_lengths, self.source_lengths)
        targets = torch.where(rows, self.source_lengths, self.target_lengths)
        return PairBatch(
            torch.where(rows[:, None], target, source)[:, : int(sources.max())],
            sources,
            torch.where(rows[:, None], source, target)[:, : int(targets.max())],
            targets,
        )

    def rounded(self) -> "PairBatch":
        """The same pairs under more padding: both lengths multiples of 4, the rows of 8.

        So few shapes exist that a step can be captured for each.
        """
        return self.padded(ROUND_LENGTHS, ROUND_ROWS)

    def padded(self, lengths: int, rows: int) -> "PairBatch":
        """The same pairs under more padding: both lengths multiples of `lengths`, the rows of `rows`.

        A row that is only padding has a source of
        one eos, so that there is something to attend to, and a target of no word: it counts nothing.
        """
        (B, S), T = self.source.shape, self.target.shape[1]
        more = -B % rows
        source = F.pad(self.source, (0, -S % lengths, 0, more), value=PAD)
        source[B:, :1] = EOS
        return PairBatch(
            source,
            F.pad(self.source_lengths, (0, more), value=1),
            F.pad(self.target, (0, -T % lengths, 0, more), value=PAD),
            F.pad(self.target_lengths, (0, more), value=0),
        )


class Plan(Sequence[list[int]]):
    """Batches of example numbers, in two arrays: millions of examples cost a few bytes each."""

    def __init__(self, rows: npt.NDArray[np.integer[Any]], starts: npt.NDArray[np.integer[Any]]) -> None:
        self.rows = rows  # (N,) all batches, one after the other
        self.starts = starts  # (batches + 1,) where each begins, and the end

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, index: int) -> list[int]: ...

    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...

    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"the plan has {len(self)} batches, no number {index}")
        index %= len(self)
        return self.rows[self.starts[index] : self.starts[index + 1]].tolist()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return np.array_equal(self.rows, other.rows) and np.array_equal(self.starts, other.starts)

    __hash__ = None  # type: ignore[assignment]


def in_memory(name: str, size: int) -> npt.NDArray[np.integer[Any]]:
    """An array for the numbers of a plan."""
    return np.empty(size, dtype=np.int64)


def plan_by_tokens(
    lengths: Lengths, *, budget: int, epoch: int, seed: int, pool: int = POOL, room: Room = in_memory
) -> Plan:
    """One training epoch: batches of similar lengths, each within `budget` tokens, in random order.

    The examples are shuffled, cut into pools, sorted by length within a pool and cut into batches; then the
    batches are shuffled. A larger pool means less padding and less chance. Lengths are rounded up to
    multiples of four for all of this, so that chance decides among many equals and batches have few shapes.
    All depends on (seed, epoch) alone, and every example comes exactly once. An example larger than the
    budget is a batch of its own. `room` gives the arrays of a name and a size; all else is small.
    """
    _check_budget(budget)
    if pool < 1:
        raise ConfigError(f"plan_by_tokens: `pool` has {pool}; expected 1 or more.")
    table = _table(lengths)
    order = room("sorted", len(table))
    _shuffle((seed, epoch, 0), order)
    counts: list[int] = []
    for start in range(0, len(order), pool):
        rows = order[start : start + pool]
        sizes = table[rows]
        sizes = sizes + -sizes % ROUND_LENGTHS
        # by both lengths together, then by the source's; the target's follows from these
        similar = np.lexsort((sizes[:, 0], sizes.sum(1)))
        order[start : start + pool] = rows[similar]
        counts += _cut(sizes[similar], budget)
    return _in_random_order(order, np.asarray(counts, dtype=np.int64), (seed, epoch, 1), room)


def plan_by_rows(lengths: Sequence[int], *, rows: int, epoch: int, seed: int, pool: int = 4096) -> Plan:
    """One training epoch: batches of exactly `rows` examples of similar lengths, in random order.

    The few that would not fill a last batch wait for another epoch; fewer than `rows` are one batch. All
    depends on (seed, epoch) alone.
    """
    if rows < 1:
        raise ConfigError(f"plan: `rows` has {rows}; expected 1 or more.")
    order = in_memory("sorted", len(lengths))
    _shuffle((seed, epoch, 0), order)
    rows = min(rows, max(1, len(order)))
    order = order[: len(order) // rows * rows]
    sizes = np.asarray(lengths, dtype=np.int64)[order]
    pool = max(rows, pool // rows * rows)
    order = order[np.lexsort((sizes, np.arange(len(order)) // pool))]
    counts = np.full(len(order) // rows, rows)
    return _in_random_order(order, counts, (seed, epoch, 1), in_memory)


def plan_in_order(lengths: Lengths, *, budget: int) -> Plan:
    """Every example once, in its own order, in batches within `budget` tokens: for evaluation."""
    _check_budget(budget)
    table = _table(lengths)
    counts = np.asarray(_cut(table[np.arange(len(table))], budget), dtype=np.int64)
    return Plan(np.arange(len(table)), np.concatenate([[0], counts.cumsum()]))


def in_batches(rows: Sequence[int], batch: int) -> list[list[int]]:
    """The rows in their order, `batch` at a time."""
    return [list(rows[start : start + batch]) for start in range(0, len(rows), batch)]


def _table(lengths: Lengths) -> "npt.NDArray[np.integer[Any]] | LengthTable":
    if isinstance(lengths, LengthTable):
        return lengths
    return np.asarray(lengths, dtype=None if isinstance(lengths, np.ndarray) else np.int64).reshape(-1, 2)


def _bits(key: tuple[int, int, int], size: int) -> Iterator[npt.NDArray[np.uint64]]:
    """Random 64-bit numbers whose sequence numpy promises not to change, unlike that of its shuffles."""
    draw: Any = np.random.PCG64(np.random.SeedSequence(key)).random_raw
    for start in range(0, size, DRAWN):
        yield draw(min(DRAWN, size - start))


def _shuffle(key: tuple[int, int, int], order: npt.NDArray[np.integer[Any]]) -> None:
    """Fill `order` with 0, 1, …, sorted by a random number each; of a large one, a share of it at a time."""
    shares = max(0, (len(order) - 1) // SHARE).bit_length()  # 2^shares, by the first bits of the number
    end = 0
    for share in range(1 << shares):
        bits, rows = [], []
        for start, drawn in zip(range(0, len(order), DRAWN), _bits(key, len(order)), strict=True):
            own = (
                np.flatnonzero(drawn >> np.uint64(64 - shares) == share) if shares else np.arange(len(drawn))
            )
            bits.append(drawn[own])
            rows.append(own + start)
        if rows:
            found = np.concatenate(rows)[np.argsort(np.concatenate(bits), kind="stable")]
            order[end : end + len(found)] = found
            end += len(found)


def _in_random_order(
    rows: npt.NDArray[np.integer[Any]],
    counts: npt.NDArray[np.int64],
    key: tuple[int, int, int],
    room: Room,
) -> Plan:
    """The batches of `counts` rows each, in another order."""
    order = np.empty(len(counts), dtype=np.int64)
    _shuffle(key, order)
    moved, starts = room("rows", len(rows)), room("starts", len(counts) + 1)
    starts[0], starts[1:] = 0, counts[order].cumsum()
    begins = counts.cumsum() - counts
    for first in range(0, len(order), CHUNK):
        batches = slice(first, first + CHUNK)
        own, begin = counts[order[batches]], int(starts[first])
        # where each row of the new order stood: the old begin of its batch, and its place within the batch
        shift = begins[order[batches]] - starts[:-1][batches]
        places = np.repeat(shift, own) + np.arange(begin, begin + own.sum())
        moved[begin : begin + len(places)] = rows[places]
    return Plan(moved, starts)


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of numbers -> (B, L) filled up with pad, and their (B,) lengths."""
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
    longest = max(map(len, rows), default=0)
    padded = [[*row, *[PAD] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long).reshape(len(rows), longest), lengths


def pair_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> PairBatch:
    """Numbers as `Tokenizer.encode` gives them -> tensors; both sides are closed by eos.

    The source's eos is its last position: there is always something to attend to, and a place for target
    words that no source word explains. Both lengths count it.
    """
    if len(sources) != len(targets):
        raise DataError(
            f"pair_batch: `targets` has {len(targets)} rows; expected {len(sources)}, as `sources`."
        )
    source, source_lengths = pad([[*row, EOS] for row in sources])
    target, target_lengths = pad([[*row, EOS] for row in targets])
    return PairBatch(source, source_lengths, target, target_lengths)


def _cut(sizes: npt.NDArray[np.integer[Any]], budget: int) -> list[int]:
    """How many of these examples, in their order, each batch has: as many as the budget allows."""
    changes = np.flatnonzero((sizes[1:] != sizes[:-1]).any(1)) + 1
    begins = np.concatenate([[0], changes])[: len(sizes)]
    repeats = np.diff(np.append(begins, len(sizes)))
    counts = []
    count = source = target = 0
    for (its_source, its_target), left in zip(sizes[begins].tolist(), repeats.tolist(), strict=True):
        while left:
            longest = max(source, its_source) + max(target, its_target)
            fitting = budget // longest - count if longest else left
            if count and fitting < 1:
                counts.append(count)
                count = source = target = 0
                continue
            taken = min(left, max(fitting, 1))
            count, left = count + taken, left - taken
            source, target = max(source, its_source), max(target, its_target)
    return [*counts, count] if count else counts


def _check_budget(budget: int) -> None:
    if budget < 1:
        raise ConfigError(f"plan: `budget` has {budget} tokens; expected 1 or more.")

"""Sentence pairs to batches: bucketing by length, padding, tensors.

The size of a batch is rows × (longest source + longest target), padding included. In training, lengths are
rounded up to multiples of four: a batch holds sentences of one such length, or of neighbouring ones, and a
captured step (see regard/train/capture.py) adds no padding beyond what was counted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Self, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.counter_rng import high_bits, unsigned
from regard.data.lexsort import lexsort
from regard.data.tensor_batch import TensorBatch
from regard.data.tokens import EOS, PAD
from regard.errors import ConfigError, DataError
from regard.extras import needs

ROUND_LENGTHS, ROUND_ROWS = 4, 8  # what the shapes of rounded batches are multiples of
POOL = 1 << 15  # examples that are sorted by length together: more means less padding and less randomness
SMALL_POOL = 1 << 12  # the same where batches have a fixed number of rows
CHUNK = 1 << 12  # batches moved at a time
DRAWN = 1 << 18  # random numbers drawn at a time
SHARE = 1 << 21  # examples sorted at once by their random numbers

Room = Callable[[str, int], Tensor]  # (name, size) -> an integer tensor (size,) for a plan


class LengthTable:
    """The lengths of examples that are too many to fit into a tensor; a subclass looks them up."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, rows: Tensor) -> Tensor:
        """(N, 2) source and target lengths of these rows."""
        raise NotImplementedError


Lengths = Sequence[tuple[int, int]] | Tensor | LengthTable  # (N, 2): source, target


@dataclass(frozen=True)
class PairBatch(TensorBatch):
    """Sentence pairs as ids. The lengths define the padding, never a value."""

    source: Tensor  # (B, S)
    source_lengths: Tensor  # (B,)
    target: Tensor  # (B, T), ends with eos
    target_lengths: Tensor  # (B,) with eos

    def repeated(self, times: int) -> Self:
        """The whole batch, repeated `times` times along the rows."""
        copies = {f.name: torch.cat([getattr(self, f.name)] * times) for f in fields(self)}
        return type(self)(**copies)

    def turned(self, rows: Tensor) -> "PairBatch":
        """The same pairs, with source and target swapped in the rows where `rows` (B,) is true."""
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
        """The same pairs with more padding: both lengths multiples of 4, the rows of 8.

        This leaves few enough shapes to capture a step for each.
        """
        return self.padded(ROUND_LENGTHS, ROUND_ROWS)

    def padded(self, lengths: int, rows: int) -> "PairBatch":
        """The same pairs with more padding: both lengths multiples of `lengths`, the rows of `rows`.

        A padding row has a source of one eos, so that there is something to attend to, and an empty target,
        so that it adds nothing to the loss.
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
    """Batches of example indices, in two tensors: a few bytes per example."""

    def __init__(self, rows: Tensor, starts: Tensor) -> None:
        self.rows = rows  # (N,) all batches, concatenated
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
        mine, theirs = (self.rows, self.starts), (other.rows, other.starts)
        return all(torch.equal(a.long(), b.long()) for a, b in zip(mine, theirs, strict=True))

    __hash__ = None  # type: ignore[assignment]


def in_memory(name: str, size: int) -> Tensor:
    """An uninitialised tensor for a plan."""
    return torch.empty(size, dtype=torch.long)


def plan_by_tokens(lengths: Lengths, *, budget: int, epoch: int, seed: int, room: Room = in_memory) -> Plan:
    """One training epoch: batches of similar lengths, each within `budget` tokens, in random order.

    The examples are shuffled, cut into pools, sorted by length within a pool and cut into batches; then the
    batches are shuffled. Lengths are first rounded up to multiples of four, so that there are many ties to
    shuffle and few shapes. The plan depends on (seed, epoch) alone and contains every example exactly once.
    An example larger than the budget is a batch of its own. `room` allocates the large tensors.
    """
    _check_budget(budget)
    table = _table(lengths)
    order = room("sorted", len(table))
    _shuffle((seed, epoch, 0), order)
    counts: list[int] = []
    for start in range(0, len(order), POOL):
        rows = order[start : start + POOL]
        sizes = table[rows]
        sizes = sizes + -sizes % ROUND_LENGTHS
        # by the total length, then by the source's; these determine the target's
        similar = lexsort(sizes.sum(1), sizes[:, 0])
        order[start : start + POOL] = rows[similar]
        counts += _cut(sizes[similar], budget)
    return _in_random_order(order, torch.tensor(counts, dtype=torch.long), (seed, epoch, 1), room)


def plan_by_rows(lengths: Sequence[int], *, rows: int, epoch: int, seed: int) -> Plan:
    """One training epoch: batches of exactly `rows` examples of similar lengths, in random order.

    An incomplete last batch is dropped; fewer than `rows` examples are one batch. The plan depends on
    (seed, epoch) alone.
    """
    if rows < 1:
        raise ConfigError(f"plan: `rows` has {rows}; expected 1 or more.")
    order = in_memory("sorted", len(lengths))
    _shuffle((seed, epoch, 0), order)
    rows = min(rows, max(1, len(order)))
    order = order[: len(order) // rows * rows]
    sizes = torch.as_tensor(lengths, dtype=torch.long)[order]
    pool = max(rows, SMALL_POOL // rows * rows)
    order = order[lexsort(torch.arange(len(order)) // pool, sizes)]
    counts = torch.full((len(order) // rows,), rows)
    return _in_random_order(order, counts, (seed, epoch, 1), in_memory)


def plan_in_order(lengths: Lengths, *, budget: int) -> Plan:
    """Every example once, in the given order, in batches within `budget` tokens: for evaluation."""
    _check_budget(budget)
    table = _table(lengths)
    every = torch.arange(len(table))
    counts = torch.tensor([0, *_cut(table[every], budget)])
    return Plan(every, counts.cumsum(0))


def in_batches(rows: Sequence[int], batch: int, *, full: bool = False) -> list[list[int]]:
    """The rows in their order, `batch` at a time.

    `full` drops an incomplete last batch, unless it is the only one.
    """
    end = len(rows) // batch * batch if full else 0
    return [list(rows[start : start + batch]) for start in range(0, end or len(rows), batch)]


def _table(lengths: Lengths) -> Tensor | LengthTable:
    if isinstance(lengths, LengthTable):
        return lengths
    return torch.as_tensor(lengths).reshape(-1, 2).long()


def _bits(key: tuple[int, int, int], size: int) -> Iterator[Tensor]:
    """Random 64-bit numbers: NumPy guarantees this stream across versions, unlike that of its shuffles."""
    needs("train", "numpy")
    from numpy.random import PCG64, SeedSequence

    chance = PCG64(SeedSequence(key))
    for start in range(0, size, DRAWN):
        yield torch.from_numpy(chance.random_raw(min(DRAWN, size - start)).view("int64"))


def _shuffle(key: tuple[int, int, int], order: Tensor) -> None:
    """Fill `order` with a permutation, sorting by random keys; a large one is sorted in shares."""
    shares = max(0, (len(order) - 1) // SHARE).bit_length()  # 2^shares of them, by the top bits of the key
    end = 0
    for share in range(1 << shares):
        bits, rows = [], []
        for start, drawn in zip(range(0, len(order), DRAWN), _bits(key, len(order)), strict=True):
            own = (high_bits(drawn, shares) == share).nonzero()[:, 0]
            bits.append(drawn[own])
            rows.append(own + start)
        if rows:
            found = torch.cat(rows)[unsigned(torch.cat(bits)).argsort(stable=True)]
            order[end : end + len(found)] = found
            end += len(found)


def _in_random_order(rows: Tensor, counts: Tensor, key: tuple[int, int, int], room: Room) -> Plan:
    """The batches of `counts` rows each, shuffled."""
    order = torch.empty_like(counts)
    _shuffle(key, order)
    moved, starts = room("rows", len(rows)), room("starts", len(counts) + 1)
    starts[0], starts[1:] = 0, counts[order].cumsum(0)
    begins = counts.cumsum(0) - counts
    for first in range(0, len(order), CHUNK):
        batches = slice(first, first + CHUNK)
        own, begin = counts[order[batches]], int(starts[first])
        # the old index of each row: the old start of its batch plus its offset within the batch
        shift = begins[order[batches]] - starts[:-1][batches]
        places = shift.repeat_interleave(own) + torch.arange(begin, begin + int(own.sum()))
        moved[begin : begin + len(places)] = rows[places]
    return Plan(moved, starts)


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of ids -> (B, L) padded with pad, and their (B,) lengths."""
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
    longest = max(map(len, rows), default=0)
    padded = [[*row, *[PAD] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long).reshape(len(rows), longest), lengths


def pair_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> PairBatch:
    """Ids as `Tokenizer.encode` returns them -> tensors; eos is appended to both sides.

    With eos in the source there is always something to attend to, and a place for target words that no source
    word explains. Both lengths include it.
    """
    if len(sources) != len(targets):
        raise DataError(
            f"pair_batch: `targets` has {len(targets)} rows; expected {len(sources)}, as `sources`."
        )
    source, source_lengths = pad([[*row, EOS] for row in sources])
    target, target_lengths = pad([[*row, EOS] for row in targets])
    return PairBatch(source, source_lengths, target, target_lengths)


def _cut(sizes: Tensor, budget: int) -> list[int]:
    """The size of each batch when the examples are cut in order, as many as the budget allows."""
    kinds, repeats = torch.unique_consecutive(sizes, return_counts=True, dim=0)
    counts = []
    count = source = target = 0
    for (its_source, its_target), left in zip(kinds.tolist(), repeats.tolist(), strict=True):
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

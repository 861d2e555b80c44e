"""Sentence pairs to batches: plans of similar lengths, padding, tensors.

The size of a batch is what it fills in memory: rows × (longest source + longest target), padding counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import Self

import torch
from torch import Tensor

from regard.data.tokens import EOS, PAD
from regard.errors import ConfigError, DataError

Lengths = Sequence[tuple[int, int]]  # (source, target) of each example


@dataclass(frozen=True)
class PairBatch:
    """Sentence pairs as numbers. Padding is told by the lengths, never by a value."""

    source: Tensor  # (B, S)
    source_lengths: Tensor  # (B,)
    target: Tensor  # (B, T), closed by eos
    target_lengths: Tensor  # (B,) eos counted

    @property
    def size(self) -> int:
        return self.source.shape[0]

    def to(self, device: torch.device | str) -> Self:
        return type(self)(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})


def plan_by_tokens(
    lengths: Lengths, *, budget: int, epoch: int, seed: int, pool: int = 4096
) -> list[list[int]]:
    """One training epoch: batches of similar lengths, each within `budget` tokens, in random order.

    The examples are shuffled, cut into pools, sorted by length within a pool and cut into batches; then the
    batches are shuffled. A larger pool means less padding and less chance. All depends on (seed, epoch)
    alone, and every example comes exactly once. An example larger than the budget is a batch of its own.
    """
    _check_budget(budget)
    if pool < 1:
        raise ConfigError(f"plan_by_tokens: `pool` has {pool}; expected 1 or more.")
    chance = Random(f"{seed} {epoch}")
    order = list(range(len(lengths)))
    chance.shuffle(order)
    batches: list[list[int]] = []
    for start in range(0, len(order), pool):
        similar = sorted(order[start : start + pool], key=lambda i: (sum(lengths[i]), lengths[i]))
        batches.extend(_cut(similar, lengths, budget))
    chance.shuffle(batches)
    return batches


def plan_in_order(lengths: Lengths, *, budget: int) -> list[list[int]]:
    """Every example once, in its own order, in batches within `budget` tokens: for evaluation."""
    _check_budget(budget)
    return list(_cut(range(len(lengths)), lengths, budget))


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


def _cut(order: Sequence[int], lengths: Lengths, budget: int) -> Iterator[list[int]]:
    batch: list[int] = []
    source = target = 0
    for example in order:
        source, target = max(source, lengths[example][0]), max(target, lengths[example][1])
        if batch and (len(batch) + 1) * (source + target) > budget:
            yield batch
            batch = []
            source, target = lengths[example]
        batch.append(example)
    if batch:
        yield batch


def _check_budget(budget: int) -> None:
    if budget < 1:
        raise ConfigError(f"plan: `budget` has {budget} tokens; expected 1 or more.")

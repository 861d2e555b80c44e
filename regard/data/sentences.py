"""Separate sentences for language models, each without the context of the others.

    inputs     <eos>  w_1  …  w_n
    targets     w_1   w_2  …  <eos>

A batch has sentences of similar length, padded to a multiple of `STEP` words, and as many rows as the budget
allows at that length, which gives few shapes for step capture. Row -1 is an empty row without targets.
"""

from collections.abc import Sequence
from itertools import groupby
from random import Random

import torch

from regard.data.text_windows import StreamBatch

STEP = 8
EMPTY = -1  # a row without a sentence


class Sentences:
    """The sentences of a text as ids, each ending with `mark`."""

    def __init__(self, numbers: Sequence[int], *, mark: int) -> None:
        self.mark = mark
        self._rows: list[list[int]] = [[]]
        for number in numbers:
            self._rows[-1].append(number)
            if number == mark:
                self._rows.append([])
        self._rows = [row for row in self._rows if row]

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, rows: Sequence[int]) -> StreamBatch:
        """These sentences; row -1 is empty."""
        chosen = [[] if row == EMPTY else self._rows[row] for row in rows]
        T = max(map(self._width, rows), default=STEP)
        targets = torch.full((len(rows), T), self.mark)
        for place, row in enumerate(chosen):
            targets[place, : len(row)] = torch.tensor(row, dtype=torch.long)
        first = torch.full((len(rows), 1), self.mark)
        counts = torch.tensor([len(row) for row in chosen], dtype=torch.long)
        return StreamBatch(torch.cat([first, targets[:, :-1]], 1), targets, counts)

    def plan(self, *, words: int) -> list[list[int]]:
        """Every sentence once, the shortest first, in batches of at most `words` words."""
        return self._cut(sorted(range(len(self)), key=self._width), words)

    def shuffled_plan(self, *, words: int, epoch: int, seed: int) -> list[list[int]]:
        """One training epoch: every sentence once, shuffled among those of its width, all batches full."""
        chance = Random(f"{seed} {epoch}")
        order = list(range(len(self)))
        chance.shuffle(order)
        batches = self._cut(sorted(order, key=self._width), words)
        chance.shuffle(batches)
        return [[*batch, *[EMPTY] * (self._room(batch[0], words) - len(batch))] for batch in batches]

    def _width(self, row: int) -> int:
        """The padded length of a sentence."""
        return STEP if row == EMPTY else -(-len(self._rows[row]) // STEP) * STEP

    def _room(self, row: int, words: int) -> int:
        """How many sentences of this width fit into a batch."""
        return max(words // self._width(row), 1)

    def _cut(self, order: Sequence[int], words: int) -> list[list[int]]:
        batches = []
        for _, same in groupby(order, key=self._width):
            rows = list(same)
            room = self._room(rows[0], words)
            batches += [rows[i : i + room] for i in range(0, len(rows), room)]
        return batches

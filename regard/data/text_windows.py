"""A long text as ids, cut into windows for training language models.

A window at position p predicts the words p, p + 1, …, p + T - 1, each given the words before it:

    inputs   w[p - C] … w[p - 1] … w[p + T - 2]            C + T - 1 words
    targets                w[p] … w[p + T - 1]             T words

C words of context, at least one, are read before the first prediction. A recurrent model warms up on them; a
memory network stores them. No state is carried between batches, so a run can resume at any step. The text is
preceded by end marks, as if a sentence had just ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batches import in_batches
from regard.data.tensor_batch import TensorBatch


@dataclass(frozen=True)
class StreamBatch(TensorBatch):
    """Windows of a text. `counts` defines which targets count, never a value."""

    inputs: Tensor  # (B, C + T - 1)
    targets: Tensor  # (B, T), the words that follow the last T inputs
    counts: Tensor  # (B,) how many targets count, from the left


class WordStream:
    """The ids of a text and its windows."""

    def __init__(self, numbers: Sequence[int], *, context: int, predict: int, start: int) -> None:
        """`start` is the id of the mark that precedes the first word."""
        self.context, self.predict, self.length = context, predict, len(numbers)
        lead, tail = [start] * context, [start] * (predict - 1)  # the tail never counts
        self._padded = torch.tensor([*lead, *numbers, *tail], dtype=torch.long)

    def batch(self, starts: Sequence[int]) -> StreamBatch:
        """The windows that begin at these positions of the text."""
        C, T = self.context, self.predict
        first = torch.tensor(starts, dtype=torch.long)
        words = self._padded[first[:, None] + torch.arange(C + T)]
        return StreamBatch(words[:, :-1], words[:, C:], (self.length - first).clamp(max=T))

    def plan(self, *, rows: int) -> list[list[int]]:
        """Every word predicted once, in order, `rows` windows a batch."""
        return in_batches(range(0, self.length, self.predict), rows)

    def shuffled_plan(self, *, rows: int, epoch: int, seed: int) -> list[list[int]]:
        """One training epoch: the windows in random order, cut at another place each epoch.

        Batches are full: what remains is left out, other words each time, unless there is nothing else.
        """
        chance = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        offset = int(torch.randint(min(self.predict, self.length), (), generator=chance))
        starts = torch.arange(offset, max(self.length - self.predict, 0) + 1, self.predict)
        if len(starts) == 0:
            starts = torch.zeros(1, dtype=torch.long)
        shuffled = starts[torch.randperm(len(starts), generator=chance)].tolist()
        return in_batches(shuffled, rows, full=True)

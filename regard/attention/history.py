"""Where earlier steps attended: what location-aware and coverage scores look back at."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.numerics import full_dtype
from regard.attention.source import Source


class History(NamedTuple):
    """The alignment of the last step and the sum over all steps."""

    previous: Tensor  # (..., 1, S) weights of the last step
    cumulative: Tensor  # (..., 1, S) sum over all steps = coverage

    @staticmethod
    def start(source: Source, *, at: int | None = None) -> "History":
        """No step taken yet: nothing attended, or the source position `at` if attention begins there."""
        shape = (*source.keys.shape[:-2], 1, source.S)
        previous = torch.zeros(shape, dtype=full_dtype(source.keys.dtype), device=source.keys.device)
        if at is not None:
            previous = previous.index_fill(-1, torch.tensor([at], device=previous.device), 1.0)
        return History(previous, torch.zeros_like(previous))

    def advance(self, weights: Tensor) -> "History":
        """(..., T, S) weights of the steps just taken -> the history after them."""
        if weights.shape[-2] == 0:
            return self
        return History(weights[..., -1:, :], self.cumulative + weights.sum(-2, keepdim=True))

    def grown(self, source: Source) -> "History":
        """The same over a source that has grown since: nobody has attended to its new positions."""
        new = source.S - self.previous.shape[-1]
        return History(F.pad(self.previous, (0, new)), F.pad(self.cumulative, (0, new)))

    def select(self, rows: Tensor) -> "History":
        """Keep these rows of the batch, in this order."""
        return History(self.previous[rows], self.cumulative[rows])

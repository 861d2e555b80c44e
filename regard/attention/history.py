"""Where earlier steps attended: what location-aware and coverage scores look back at."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.numerics import upcast_dtype
from regard.attention.source import Source, check_rows, check_source, chosen
from regard.errors import ConfigError, ShapeError, check_shapes, shown


class History(NamedTuple):
    """The alignment of the last step and the sum over all steps, for scores that look back.

        attention = Attention(CoverageScore(query=32, keys=64, hidden=32))
        source = attention.prepare(torch.randn(2, 9, 64))
        history = History.start(source)
        for t in range(4):
            result = attention(torch.randn(2, 1, 32), source.at(t), history=history)
            history = history.advance(result.weights)

    `in_order` runs this loop for you when all queries are known.
    """

    previous: Tensor  # (..., 1, S) weights of the last step
    cumulative: Tensor  # (..., 1, S) sum over all steps = coverage

    @staticmethod
    def start(source: Source, *, at: int | None = None) -> "History":
        """Before the first step: nothing attended, or the source position `at` if attention starts there."""
        check_source("History.start", "source", source)
        if at is not None and not (isinstance(at, int) and -source.S <= at < source.S):
            raise ConfigError(f"History.start: `at` has {shown(at)}; expected one of {source.S} positions.")
        shape = (*source.spread().keys.shape[:-2], 1, source.S)  # rows that share a source differ in history
        previous = torch.zeros(shape, dtype=upcast_dtype(source.keys.dtype), device=source.keys.device)
        if at is not None:
            previous = previous.index_fill(-1, torch.tensor([at], device=previous.device), 1.0)
        return History(previous, torch.zeros_like(previous))

    def advance(self, weights: Tensor) -> "History":
        """(..., T, S) weights of the latest steps -> the history after them."""
        S = self.cumulative.shape[-1]
        check_shapes("History.advance", ("weights", weights, "... T S"), S=S)
        if weights.shape[-2] == 0:
            return self
        return History(weights[..., -1:, :], self.cumulative + weights.sum(-2, keepdim=True))

    def grown(self, source: Source) -> "History":
        """The same over a source that has grown since; its new positions have not been attended."""
        new = source.S - self.previous.shape[-1]
        if new < 0:
            raise ShapeError(
                f"History.grown: `source` has {source.S} positions; "
                f"expected {self.previous.shape[-1]} or more."
            )
        return History(F.pad(self.previous, (0, new)), F.pad(self.cumulative, (0, new)))

    def select(self, rows: Tensor) -> "History":
        """Keep these rows of the batch, in this order."""
        check_rows("History.select", rows)
        return History(*(chosen("History.select", x, rows) for x in self))

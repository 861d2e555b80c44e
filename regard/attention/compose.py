"""Attention is normalize(score(query, keys), mask) @ values: this file puts the four parts together."""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.history import History
from regard.attention.mask import Mask
from regard.attention.normalizers.base import HistoryNormalizer, Normalizer, StochasticNormalizer
from regard.attention.normalizers.hard import HardNormalizer
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import exact, full
from regard.attention.result import Alignment, AttentionResult
from regard.attention.scores.base import HistoryScore, Score
from regard.attention.source import Source
from regard.attention.windows.base import Window
from regard.errors import ShapeError, check_shapes
from regard.kernels.dispatch import Call, choose_kernel


class Attention(nn.Module):
    """One score, one normalizer, perhaps a window: prepare the source once, then ask with queries.

    `kernel` is "auto" (the first fused kernel that can run the call, else the reference), "reference", or the
    name of a kernel, which then runs or says why it cannot.
    """

    def __init__(
        self,
        score: Score | HistoryScore,
        *,
        normalizer: Normalizer | HistoryNormalizer | None = None,
        window: Window | None = None,
        dropout: float = 0.0,
        kernel: str = "auto",
    ) -> None:
        super().__init__()
        self.score = score
        self.normalizer = Softmax() if normalizer is None else normalizer
        self.window = window
        self.dropout = dropout
        self.kernel = kernel

    def prepare(
        self, keys: Tensor, values: Tensor | None = None, mask: Mask | Tensor | None = None
    ) -> Source:
        """(..., S, Dk), (..., S, Dv) -> the source, with all work done that depends on it alone."""
        values = keys if values is None else values
        check_shapes("Attention", ("keys", keys, "... S Dk"), ("values", values, "... S Dv"))
        return Source(self.score.prepare(keys), values, Mask.of(mask).fitting("Attention", keys))

    def forward(
        self,
        query: Tensor,
        source: Source,
        *,
        history: History | None = None,
        generator: torch.Generator | None = None,
    ) -> AttentionResult:
        """(..., T, Dq), source -> context (..., T, Dv), and the alignment on demand."""
        check_shapes("Attention", ("query", query, "... T Dq"))
        if source.copies > 1:
            return self._shared(query, source, history, generator)
        dropout = self.dropout if self.training else 0.0
        call = Call(query, source, self.score, self.normalizer, self.window, history, dropout)
        kernel = choose_kernel(call, self.kernel)
        if kernel is not None:
            return self._result(call, kernel.run(call), kernel.name)
        alignment = self._align(query, source, history, generator=generator)
        weights = F.dropout(alignment.weights, dropout) if dropout else alignment.weights
        return self._result(call, mix(weights, source.values), "reference", alignment)

    def _shared(
        self, query: Tensor, source: Source, history: History | None, generator: torch.Generator | None
    ) -> AttentionResult:
        """Queries that share a row of the source ask it together, as if they stood one after the other."""
        apart = history is not None or self.window is not None or source.mask.is_by_query
        if apart or query.shape[-2] != 1:
            return self.forward(query, source.spread(), history=history, generator=generator)
        k = source.copies
        together = torch.unflatten(query.squeeze(-2), 0, (-1, k)).movedim(1, -2)  # (B, ..., k, Dq)
        result = self.forward(together, replace(source, copies=1), generator=generator)
        alignment = None
        if result.has_weights:
            alignment = Alignment(_apart(result.scores), _apart(result.weights))
        return AttentionResult(
            _apart(result.context),
            kernel=result.kernel,
            rows=1,
            align=lambda targets: self._align(query, source.spread(), None, targets=targets),
            alignment=alignment,
            log_probability=self._log_probability if isinstance(self.normalizer, HardNormalizer) else None,
        )

    def _result(
        self, call: Call, context: Tensor, kernel: str, alignment: Alignment | None = None
    ) -> AttentionResult:
        query, source, history = call.query, call.source, call.history
        return AttentionResult(
            context,
            kernel=kernel,
            rows=query.shape[-2],
            # a lambda: a compiled graph cannot hand out a function that carries annotations
            align=lambda targets: self._align(query, source, history, targets=targets),
            alignment=alignment,
            log_probability=self._log_probability if isinstance(self.normalizer, HardNormalizer) else None,
        )

    def align(
        self,
        query: Tensor,
        source: Source,
        *,
        history: History | None = None,
        generator: torch.Generator | None = None,
    ) -> Alignment:
        """(..., T, Dq), source -> scores and weights (..., T, S), without the context."""
        return self._align(query, source, history, generator=generator)

    def _align(
        self,
        query: Tensor,
        source: Source,
        history: History | None,
        *,
        targets: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Alignment:
        positions = None if targets is None else targets + source.mask.offset
        query = query if targets is None else query[..., targets, :]
        T, S = query.shape[-2], source.S
        mask = source.mask.to_dense(T, S, ndim=query.ndim, device=query.device, positions=positions)
        factor = None
        if self.window is not None:
            if mask is None:
                mask = torch.ones(S, dtype=torch.bool, device=query.device)
            mask = mask.expand(*mask.shape[:-1], S)  # a dense mask may have one column for all of S
            if positions is None:
                positions = source.mask.positions(T, query.device)
            mask, factor = self.window(query, mask, positions)
        scores = self._scores(query, source, history)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = self._normalized(scores, history, generator)
        return Alignment(scores, weights if factor is None else weights * factor)

    def _scores(self, query: Tensor, source: Source, history: History | None) -> Tensor:
        if isinstance(self.score, HistoryScore):
            return self.score(query, source.keys, _needed(self.score, history))
        return self.score(query, source.keys)

    def _normalized(
        self, scores: Tensor, history: History | None, generator: torch.Generator | None
    ) -> Tensor:
        if isinstance(self.normalizer, HistoryNormalizer):
            return self.normalizer(scores, None, _needed(self.normalizer, history))
        if isinstance(self.normalizer, StochasticNormalizer):
            return self.normalizer(scores, None, generator)
        return self.normalizer(scores)

    def _log_probability(self, alignment: Alignment) -> Tensor:
        assert isinstance(self.normalizer, HardNormalizer)
        return self.normalizer.log_probability(alignment.scores, alignment.weights)

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}, kernel={self.kernel!r}"


def mix(weights: Tensor, values: Tensor) -> Tensor:
    """(..., T, S), (..., S, Dv) -> (..., T, Dv) in the dtype of the values, summed in full precision."""
    with exact(values):
        return (weights @ full(values)).to(values.dtype)


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor | None = None,
    *,
    score: Score,
    normalizer: Normalizer | None = None,
    mask: Mask | Tensor | None = None,
    kernel: str = "auto",
) -> AttentionResult:
    """Attention in one call, for keys that are asked once."""
    attention = Attention(score, normalizer=normalizer, kernel=kernel).train(score.training)
    return attention(query, attention.prepare(keys, values, mask))


def _apart(x: Tensor) -> Tensor:
    """(B, ..., k, D) -> (B k, ..., 1, D): the inverse of asking together."""
    return x.movedim(-2, 1).flatten(0, 1).unsqueeze(-2)


def _needed(part: nn.Module, history: History | None) -> History:
    if history is None:
        raise ShapeError(f"{type(part).__name__} needs `history`; start with History.start(source).")
    return history

"""Batches queries that share a row of the source, such as the hypotheses of a beam."""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.attention.result import Alignment, AttentionResult, on_demand


def together(query: Tensor, k: int) -> Tensor:
    """(B k, ..., 1, Dq) -> (B, ..., k, Dq): the k queries of a row become consecutive queries."""
    return torch.unflatten(query.squeeze(-2), 0, (-1, k)).movedim(1, -2)


def apart(result: AttentionResult, log_probability: Callable[[Alignment], Tensor] | None) -> AttentionResult:
    """The result of `together` queries, split as if each had been its own row."""
    return AttentionResult(
        _apart(result.context),
        kernel=result.kernel,
        align=lambda targets: _alignment(result, targets),
        alignment=on_demand(lambda: _apart(result.scores), lambda: _apart(result.weights))
        if result.has_weights
        else None,
        log_probability=log_probability,
    )


def _apart(x: Tensor) -> Tensor:
    """(B, ..., k, D) -> (B k, ..., 1, D): the inverse of `together`."""
    return x.movedim(-2, 1).flatten(0, 1).unsqueeze(-2)


def _alignment(result: AttentionResult, targets: Tensor | None = None) -> Alignment:
    scores, weights = _apart(result.scores), _apart(result.weights)
    if targets is None:
        return Alignment(scores, weights)
    return Alignment(scores[..., targets, :], weights[..., targets, :])

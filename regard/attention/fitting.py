"""Fits queries to their source: checks, and queries that share a row, such as the hypotheses of a beam."""

from collections.abc import Callable
from math import prod

import torch
from torch import Tensor

from regard.attention.result import Alignment, AttentionResult, on_demand
from regard.attention.source import Source
from regard.errors import MaskError, ShapeError, check_shapes


def asked(query: Tensor, source: Source) -> Source:
    """The source as these queries see it; raises ShapeError or MaskError if they do not fit."""
    if query.ndim < 2:  # cheaper than check_shapes, which matters in short calls
        check_shapes("Attention", ("query", query, "... T Dq"))
    if not query.is_floating_point():
        raise ShapeError(f"Attention: `query` has dtype {query.dtype}; expected a floating-point dtype.")
    if query.ndim < source.keys.ndim:
        check_axes("Attention", query, source.keys.shape[:-2], source.copies)
    if source.mask.dense is not None:
        source.mask.fitting_queries("Attention", query.shape[-2])
    return source.asked_by(query.shape[-2]) if source.grown else source


def check_axes(owner: str, query: Tensor, rows: torch.Size, copies: int = 1) -> None:
    """Reject a query that lacks a batch axis of the source: a state (B, D) is not (T, D) for every row."""
    missing = len(rows) + 2 - query.ndim
    if missing > 0 and copies * prod(rows[:missing]) > 1:
        lead = ", ".join(map(str, (copies * rows[0], *rows[1:])))
        raise ShapeError(
            f"{owner}: `query` has shape {tuple(query.shape)}; expected ({lead}, T, Dq), as many axes as "
            "the source. `query[..., None, :]` is one query for each row; `query[None]` are queries that "
            "all rows share."
        )


def with_batch_axis(query: Tensor, source: Source) -> Tensor:
    """The query with as many axes as the keys, so that lengths apply to the batch axis of both."""
    missing = source.keys.ndim - query.ndim
    lengths = source.mask.lengths
    if missing < 0 and lengths is not None and lengths.shape[0] > 1:
        raise MaskError(
            f"Attention: `query` has shape {tuple(query.shape)}, more axes than keys "
            f"{tuple(source.keys.shape)}, whose rows have {lengths.shape[0]} lengths; expected as many axes. "
            "Give keys that heads share an axis of size 1."
        )
    return query[(None,) * missing] if missing > 0 else query


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

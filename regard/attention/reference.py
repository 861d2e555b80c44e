"""Attention as it is defined: score, mask, normalize, mix. Read this file first.

    scores  = score(query, keys), -inf where the mask or the window hides
    weights = normalize(scores), times the window's factor if it has one
    context = weights @ values

Half precision is computed in float32, float64 in float64. Fused kernels are tested against this file, and it
runs when no kernel accepts a call.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.dispatch import Call
from regard.attention.forms import Form
from regard.attention.hidden import not_finite, without
from regard.attention.normalizers.base import StochasticNormalizer
from regard.attention.numerics import no_autocast, times, upcast
from regard.attention.parts import unchanged
from regard.attention.result import Alignment
from regard.attention.scores.base import HistoryScore
from regard.attention.windows.local_predictive import Around
from regard.errors import ShapeError


def attend(call: Call) -> tuple[Tensor, Alignment]:
    """The context (..., T, Dv), and its scores and weights."""
    return mixed(call, alignment := align(call)), alignment


def align(
    call: Call,
    targets: Tensor | None = None,
    generator: torch.Generator | None = None,
    scores: Tensor | None = None,
) -> Alignment:
    """Scores and weights (..., T, S), before dropout; only those of the queries `targets` (R,), if given.

    `scores` are unmasked scores that a kernel has already computed.
    """
    scores, factor = masked_scores(call, targets, scores=scores)
    weights = normalize(call, scores, generator)
    if call.garbage:  # queries that see it get NaN and contribute no gradient
        seen = not_finite(call.source.keys) & ~scores.isneginf()
        scores = scores.masked_fill(seen, math.nan)
        weights = weights.masked_fill(seen.any(-1, keepdim=True), math.nan)
    return Alignment(scores, weights if factor is None else weights * factor)


def masked_scores(
    call: Call, targets: Tensor | None = None, sources: slice | None = None, scores: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Scores (..., T, S), -inf where hidden, and the window's factor.

    `targets` (R,) selects queries. `sources` slices the source axis; it needs a form and no window.
    """
    query, source = call.query, call.source
    positions = None if targets is None else targets + source.mask.offset
    query = query if targets is None else query[..., targets, :]
    mask, factor = source.visible(query, positions, sources), None
    if call.window is not None:
        if mask is None:
            mask = torch.ones(source.S, dtype=torch.bool, device=query.device)
        mask = mask.expand(*mask.shape[:-1], source.S)  # a dense mask may broadcast over S
        if positions is None:
            positions = source.mask.positions(query.shape[-2], query.device)
        window = (
            call.window.of(targets)
            if targets is not None and isinstance(call.window, Around)
            else call.window
        )
        mask, factor = window(query, mask, positions)
    scores = _scores(call, query, targets, sources) if scores is None else scores
    return scores if mask is None else scores.masked_fill(source.inverse(mask), -math.inf), factor


def _scores(call: Call, query: Tensor, targets: Tensor | None, sources: slice | None) -> Tensor:
    """Scores (..., T, S) from the score's own equation."""
    keys = call.source.keys
    if call.form_type is not None:
        form: Form = call.form()
        if call.garbage:
            form = form._replace(keys=without(keys, not_finite(keys)))
        if targets is not None:
            form = form._replace(query=form.query[..., targets, :])
        return (form if sources is None else form._replace(keys=form.keys[..., sources, :])).scores()
    keys = without(keys, not_finite(keys)) if call.garbage else keys
    if isinstance(call.score, HistoryScore):
        if call.history is None:
            owner = type(call.score).__name__
            raise ShapeError(f"{owner} needs `history`; start with History.start(source).")
        return call.score(query, keys, call.history)
    return call.score(query, keys)


def normalize(call: Call, scores: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Scores (..., T, S) -> weights."""
    plain = call.no_row_is_empty and unchanged(call.normalizer)
    run: Callable[..., Tensor] = call.normalizer.normalize if plain else call.normalizer
    if isinstance(call.normalizer, StochasticNormalizer):
        return run(scores, generator=generator)
    return run(scores)


def mixed(call: Call, alignment: Alignment) -> Tensor:
    """The context (..., T, Dv): the weighted sum of the values, after dropout of the weights."""
    weights, values = alignment.weights, call.source.values
    if call.dropout:
        weights = F.dropout(weights, call.dropout)
    if call.garbage:
        return weighted_sum_around_garbage(weights, values)
    gradient = torch.is_grad_enabled() and (weights.requires_grad or values.requires_grad)
    if call.normalizer.one_hot and not gradient and weights.shape[-1]:
        return pick(weights, values)
    return weighted_sum(weights, values)


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """(..., T, S), (..., S, Dv) -> (..., T, Dv) in the dtype of the values, summed in full precision."""
    with no_autocast(values):
        return times(weights, values).to(values.dtype)


def weighted_sum_around_garbage(weights: Tensor, values: Tensor) -> Tensor:
    """`weighted_sum` of values that may be NaN or infinite: only rows with weight on those become NaN."""
    bad = not_finite(values)
    affected = (weights.isnan() | ((weights != 0) & bad)).any(-1, keepdim=True)
    clean = weighted_sum(weights.masked_fill(affected, 0.0), without(values, bad))
    return clean.masked_fill(affected, math.nan)


def pick(weights: Tensor, values: Tensor) -> Tensor:
    """`weighted_sum` of rows with a single nonzero weight: reads only the chosen value."""
    chosen = weights.argmax(-1, keepdim=True)  # (..., T, 1)
    lead = torch.broadcast_shapes(weights.shape[:-2], values.shape[:-2])  # type: ignore[no-untyped-call]
    places = chosen.expand(*lead, chosen.shape[-2], values.shape[-1])
    picked = values.expand(*lead, *values.shape[-2:]).gather(-2, places)
    return (weights.gather(-1, chosen) * upcast(picked)).to(values.dtype)

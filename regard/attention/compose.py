"""Attention is normalize(score(query, keys), mask) @ values: this file puts the four parts together."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.hidden import guarded, not_finite, silenced, without
from regard.attention.history import History
from regard.attention.mask import Mask
from regard.attention.normalizers.base import HistoryNormalizer, Normalizer, StochasticNormalizer
from regard.attention.normalizers.hard import HardNormalizer
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import exact, full, times
from regard.attention.result import Alignment, AttentionResult
from regard.attention.scores.base import HistoryScore, Score
from regard.attention.source import Source
from regard.attention.windows.base import Window
from regard.attention.windows.everywhere import Everywhere
from regard.errors import KernelRefused, MaskError, ShapeError, check_shapes
from regard.kernels.dispatch import Call, Explanation, choose_kernel, explain, is_own
from regard.kernels.products import PRODUCTS, draws

TILE = 256  # queries of a tile of scores, and an eighth of its source positions


class Attention(nn.Module):
    """One score, one normalizer, perhaps a window: prepare the source once, then ask with queries.

    `kernel` is "auto" (the first fused kernel that can run the call, else the reference), "reference", or the
    name of a kernel, which then runs or says why it cannot. `keeps` is for callers that read the scores or
    the weights of every result: kernels that never have them would make them twice, and are passed over.
    """

    def __init__(
        self,
        score: Score | HistoryScore,
        *,
        normalizer: Normalizer | HistoryNormalizer | None = None,
        window: Window | None = None,
        dropout: float = 0.0,
        kernel: str = "auto",
        keeps: bool = False,
    ) -> None:
        super().__init__()
        self.score = score
        self.normalizer = Softmax() if normalizer is None else normalizer
        self.window = window
        self.dropout = dropout
        self.kernel = kernel
        self.keeps = keeps

    def prepare(
        self, keys: Tensor, values: Tensor | None = None, mask: Mask | Tensor | None = None
    ) -> Source:
        """(..., S, Dk), (..., S, Dv) -> the source, with all work done that depends on it alone."""
        values = keys if values is None else values
        check_shapes("Attention", ("keys", keys, "... S Dk"), ("values", values, "... S Dv"))
        mask = Mask.of(mask).fitting("Attention", keys)
        if mask.is_trivial and self.window is None:  # nothing is hidden
            return Source(self.score.prepare(keys), values, mask)
        keys, values, harmless = silenced(mask, keys, values)
        return Source(self.score.prepare(keys), values, mask).known(harmless)

    def forward(
        self,
        query: Tensor,
        source: Source,
        *,
        history: History | None = None,
        generator: torch.Generator | None = None,
    ) -> AttentionResult:
        """(..., T, Dq), source -> context (..., T, Dv), and the alignment on demand."""
        _check_query(query, source)
        if source.copies > 1:
            return self._shared(query, source, history, generator)
        dropout = self.dropout if self.training else 0.0
        call = self._call(query, source, history, dropout)
        kernel = choose_kernel(call, self.kernel)
        if kernel is not None:
            fused = kernel.run(call)
            if isinstance(fused, Tensor):
                return self._result(call, fused, kernel.name)
            return self._result(call, fused.context, kernel.name, Alignment(*fused.alignment))
        source = call.source
        alignment = self._align(query, source, history, generator=generator)
        weights = F.dropout(alignment.weights, dropout) if dropout else alignment.weights
        if call.garbage:
            mixed = mix_around_garbage(weights, source.values)
        else:
            mixed = (pick if self._picks(weights, source.values) else mix)(weights, source.values)
        return self._result(call, mixed, "reference", alignment)

    def _call(self, query: Tensor, source: Source, history: History | None, dropout: float) -> Call:
        # where nn.Module keeps its parts: `self.score` is searched for in three other places first, which
        # shows in the time of a short call
        parts: dict[str, Any] = self._modules
        score, normalizer = parts["score"], parts["normalizer"]
        if source.mask.lengths is not None and query.ndim != source.keys.ndim:
            query = _by_rows(query, source)
        mask, garbage = source.mask, False
        hides = mask.causal or mask.lengths is not None or mask.dense is not None or mask.window is not None
        if (hides or self.window is not None) and not source.is_silent:
            source, harmless = guarded(source)
            garbage = not harmless
        return Call(query, source, score, normalizer, self.window, history, dropout, self.keeps, garbage)

    def _picks(self, weights: Tensor, values: Tensor) -> bool:
        """One value is all that a row needs, and nobody asks for the gradient of the others."""
        gradient = torch.is_grad_enabled() and (weights.requires_grad or values.requires_grad)
        return self.normalizer.one_hot and not gradient and weights.shape[-1] > 0

    def explain(self, query: Tensor, source: Source, *, history: History | None = None) -> Explanation:
        """Which implementation a call with these arguments would take, and why not the others."""
        _check_query(query, source)
        if source.copies > 1:
            apart = self._apart(query, source, history)
            query = query if apart else _together(query, source.copies)
            source = source.spread() if apart else replace(source, copies=1)
        dropout = self.dropout if self.training else 0.0
        return explain(self._call(query, source, history, dropout), self.kernel)

    def _apart(self, query: Tensor, source: Source, history: History | None) -> bool:
        """Queries that share a row of the source must still ask it one by one."""
        by_query = history is not None or self.window is not None or source.mask.is_by_query
        return by_query or query.shape[-2] != 1

    def _shared(
        self, query: Tensor, source: Source, history: History | None, generator: torch.Generator | None
    ) -> AttentionResult:
        """Queries that share a row of the source ask it together, as if they stood one after the other."""
        if self._apart(query, source, history):
            return self.forward(query, source.spread(), history=history, generator=generator)
        together = _together(query, source.copies)
        result = self.forward(together, replace(source, copies=1), generator=generator)
        alignment = None
        if result.has_weights:
            alignment = Alignment(_apart(result.scores), _apart(result.weights))
        call = self._call(query, source, None, 0.0)
        state = _versions(call, alignment)
        return AttentionResult(
            _apart(result.context),
            kernel=result.kernel,
            rows=1,
            align=lambda targets: self._align(*_unchanged(call, state, spread=True), targets=targets),
            alignment=alignment,
            log_probability=self._log_probability if isinstance(self.normalizer, HardNormalizer) else None,
        )

    def _result(
        self,
        call: Call,
        context: Tensor,
        kernel: str,
        alignment: Alignment | None = None,
    ) -> AttentionResult:
        query, source = call.query, call.source
        state = _versions(call, alignment)
        return AttentionResult(
            context,
            kernel=kernel,
            rows=query.shape[-2],
            # lambdas: a compiled graph cannot hand out a function that carries annotations
            align=lambda targets: self._align(*_unchanged(call, state), targets=targets),
            alignment=alignment,
            top=lambda k: largest(self._call(*_unchanged(call, state), 0.0), k),
            numbers=source.keys.numel(),
            log_probability=self._log_probability if isinstance(call.normalizer, HardNormalizer) else None,
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
        call = self._call(query, source, history, 0.0)
        scores, factor = scored(call, targets)
        weights = normalized(call, scores, generator)
        if call.garbage:  # who sees it gets NaN, and has no part in any gradient
            seen = not_finite(call.source.keys) & ~scores.isneginf()
            scores = scores.masked_fill(seen, math.nan)
            weights = weights.masked_fill(seen.any(-1, keepdim=True), math.nan)
        return Alignment(scores, weights if factor is None else weights * factor)

    def _log_probability(self, alignment: Alignment) -> Tensor:
        assert isinstance(self.normalizer, HardNormalizer)
        return self.normalizer.log_probability(alignment.scores, alignment.weights)

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}, kernel={self.kernel!r}"


def scored(
    call: Call, targets: Tensor | None = None, sources: slice | None = None
) -> tuple[Tensor, Tensor | None]:
    """Scores (..., T, S), -inf where hidden, and the window's factor; of these queries (R,), if given.

    `sources` cuts the source axis, for scores that look at one key at a time and where there is no window.
    """
    query, source = call.query, call.source
    positions = None if targets is None else targets + source.mask.offset
    query = query if targets is None else query[..., targets, :]
    T, S = query.shape[-2], source.S
    mask = source.mask.to_dense(
        T, S, ndim=query.ndim, device=query.device, positions=positions, sources=sources
    )
    factor = None
    if call.window is not None:
        if mask is None:
            mask = torch.ones(S, dtype=torch.bool, device=query.device)
        mask = mask.expand(*mask.shape[:-1], S)  # a dense mask may have one column for all of S
        if positions is None:
            positions = source.mask.positions(T, query.device)
        mask, factor = call.window(query, mask, positions)
    keys = without(source.keys, not_finite(source.keys)) if call.garbage else source.keys
    if isinstance(call.score, HistoryScore):
        scores = call.score(query, keys, _needed(call.score, call.history))
    else:
        keys = keys if sources is None else keys[..., sources, :]
        scores = call.score(query, keys)
    return scores if mask is None else scores.masked_fill(~mask, -math.inf), factor


def normalized(call: Call, scores: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Scores (..., T, S) -> the weights that the call's normalizer makes of them."""
    if isinstance(call.normalizer, HistoryNormalizer):
        return call.normalizer(scores, None, _needed(call.normalizer, call.history))
    if isinstance(call.normalizer, StochasticNormalizer):
        return call.normalizer(scores, None, generator)
    return call.normalizer(scores)


def mix(weights: Tensor, values: Tensor) -> Tensor:
    """(..., T, S), (..., S, Dv) -> (..., T, Dv) in the dtype of the values, summed in full precision."""
    with exact(values):
        return times(weights, values).to(values.dtype)


def mix_around_garbage(weights: Tensor, values: Tensor) -> Tensor:
    """`mix` where values may be NaN or infinite: rows that weigh those are NaN, others do not notice."""
    bad = not_finite(values)
    noticed = (weights.isnan() | ((weights != 0) & bad)).any(-1, keepdim=True)
    return mix(weights.masked_fill(noticed, 0.0), without(values, bad)).masked_fill(noticed, math.nan)


def pick(weights: Tensor, values: Tensor) -> Tensor:
    """`mix` for rows with one weight that is not zero: only the value that it chooses is read."""
    chosen = weights.argmax(-1, keepdim=True)  # (..., T, 1)
    values = values.expand(*weights.shape[:-2], *values.shape[-2:])
    picked = values.gather(-2, chosen.expand(*chosen.shape[:-1], values.shape[-1]))
    return (weights.gather(-1, chosen) * full(picked)).to(values.dtype)


def largest(call: Call, k: int) -> tuple[Tensor, Tensor] | None:
    """(..., T, k) largest weights of a softmax and their positions, without any row as a whole.

        weight = exp(score / temperature - m) / Σ exp(score / temperature - m),   m the largest of the row

    Scores are looked at in tiles of both axes. Of each row the best are kept, m, and the sum so far, which is
    rescaled where a tile has a larger m: what a softmax does, in another order. None where a tile cannot be
    scored by itself, or is no softmax.
    """
    T, S = call.query.shape[-2], call.source.S
    if k > S or T == 0 or not _is_by_pairs(call):
        return None
    assert isinstance(call.normalizer, Softmax)
    temperature, rows = call.normalizer.temperature, []
    for start in range(0, T, TILE):
        targets = torch.arange(start, min(start + TILE, T), device=call.query.device)
        best: _Best | None = None
        for first in range(0, S, 8 * TILE):
            scores, _ = scored(call, targets, slice(first, min(first + 8 * TILE, S)))
            best = _better(best, scores if temperature == 1.0 else scores / temperature, first, k)
        assert best is not None
        total = best.total.masked_fill(best.total == 0, 1.0)  # of a row that sees nothing
        rows.append((_exp(best.scores, best.most) / total, best.places))
    return torch.cat([x for x, _ in rows], -2), torch.cat([x for _, x in rows], -2)


class _Best(NamedTuple):
    """What is known of some rows after some of their tiles."""

    scores: Tensor  # (..., R, k) the largest
    places: Tensor  # (..., R, k) and where they are
    most: Tensor  # (..., R, 1) the largest of all
    total: Tensor  # (..., R, 1) Σ exp(score - most)


def _better(best: _Best | None, scores: Tensor, first: int, k: int) -> _Best:
    """(..., R, W) further scores, at the positions from `first` on."""
    found = scores.topk(min(k, scores.shape[-1]), dim=-1)
    values, places = found.values, found.indices + first
    most = values[..., :1]
    # the largest is 1 before it is divided by the sum; one pass where exponentials and their sum are three
    total = scores.softmax(-1).gather(-1, found.indices[..., :1]).reciprocal()
    total = total.masked_fill(most == -math.inf, 0.0)
    if best is None:
        return _Best(values, places, most, total)
    values, places = torch.cat([best.scores, values], -1), torch.cat([best.places, places], -1)
    kept = values.topk(min(k, values.shape[-1]), dim=-1)
    joint = torch.maximum(best.most, most)
    total = best.total * _exp(best.most, joint) + total * _exp(most, joint)
    return _Best(kept.values, places.gather(-1, kept.indices), joint, total)


def _exp(scores: Tensor, most: Tensor) -> Tensor:
    """exp(score - most); 0 where the largest is -inf, since nothing is visible there."""
    return (scores - most.masked_fill(most == -math.inf, 0.0)).exp()


def _is_by_pairs(call: Call) -> bool:
    """A softmax of scores that each look at one query and one key, all of them cheap to make again."""
    if call.garbage:
        return False
    plain = call.window is None or is_own(call.window, Everywhere)
    return plain and is_own(call.normalizer, Softmax) and is_own(call.score, *PRODUCTS)


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


def _versions(call: Call, kept: Alignment | None = None) -> list[int] | None:
    """How often each parameter that a look at the weights reads was changed; None where they are kept.

    By hand: `parameters()` takes three times as long, which short calls feel. What optimizers
    with `fused=True` change PyTorch does not count.
    """
    if kept is not None or torch.compiler.is_compiling():
        return None
    if call.window is None and not (call.score._parameters or call.score._modules):  # dot products
        return []
    found: list[int] = []
    parts: list[nn.Module | None] = [call.score, call.window]
    for part in parts:
        if part is not None:
            found += [x._version for x in part._parameters.values() if x is not None and not x.is_inference()]
            parts += part._modules.values()
    return found


def _unchanged(
    call: Call, state: list[int] | None, *, spread: bool = False
) -> tuple[Tensor, Source, History | None]:
    """Query, source and history, if the weights that they give now are those of the call."""
    if state is not None:
        changed = "its parameters have changed" if state != _versions(call) else None
        changed = changed or ("its score has begun to draw dropout" if draws(call.score) else None)
        if changed:
            raise KernelRefused(
                f"AttentionResult: the weights were not kept, and {changed} since the call; expected a look "
                "before that. `Attention(…, keeps=True)` keeps them."
            )
    return call.query, call.source.spread() if spread else call.source, call.history


def _check_query(query: Tensor, source: Source) -> None:
    if query.ndim < 2:  # asked first, because a short call feels the check
        check_shapes("Attention", ("query", query, "... T Dq"))
    if source.mask.dense is not None:
        source.mask.fitting_queries("Attention", query.shape[-2])


def _by_rows(query: Tensor, source: Source) -> Tensor:
    """The query with as many axes as the keys, whose rows have lengths: of both the first is the batch."""
    missing = source.keys.ndim - query.ndim
    lengths = source.mask.lengths
    if missing < 0 and lengths is not None and lengths.shape[0] > 1:
        raise MaskError(
            f"Attention: `query` has shape {tuple(query.shape)}, more axes than keys "
            f"{tuple(source.keys.shape)}, whose rows have {lengths.shape[0]} lengths; expected as many. "
            "Heads that share keys are an axis of size 1."
        )
    return query[(None,) * missing] if missing > 0 else query


def _together(query: Tensor, k: int) -> Tensor:
    """(B k, ..., 1, Dq) -> (B, ..., k, Dq): the k queries of a row, one after the other."""
    return torch.unflatten(query.squeeze(-2), 0, (-1, k)).movedim(1, -2)


def _apart(x: Tensor) -> Tensor:
    """(B, ..., k, D) -> (B k, ..., 1, D): the inverse of asking together."""
    return x.movedim(-2, 1).flatten(0, 1).unsqueeze(-2)


def _needed(part: nn.Module, history: History | None) -> History:
    if history is None:
        raise ShapeError(f"{type(part).__name__} needs `history`; start with History.start(source).")
    return history

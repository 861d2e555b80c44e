"""Attention is normalize(score(query, keys), mask) @ values: this file puts the four parts together."""

import math
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import mistakes
from regard.attention.copies import copied
from regard.attention.hidden import guarded, not_finite, projected, silenced, without
from regard.attention.history import History
from regard.attention.mask import Mask
from regard.attention.normalizers.base import HistoryNormalizer, Normalizer, StochasticNormalizer
from regard.attention.normalizers.hard import HardNormalizer
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import no_autocast, times, upcast
from regard.attention.result import Alignment, AttentionResult
from regard.attention.scores.base import HistoryScore, Score
from regard.attention.source import Source
from regard.attention.trace import WATCHERS, leave
from regard.attention.windows.base import Window
from regard.attention.windows.everywhere import Everywhere
from regard.attention.windows.local_predictive import Around
from regard.errors import MaskError, ShapeError, check_part, check_shapes, check_share
from regard.kernels.dispatch import Call, Explanation, check_name, choose_kernel, explain, is_own
from regard.kernels.product.products import PRODUCTS

TILE = 256  # queries of a tile of scores, and an eighth of its source positions


class Attention(nn.Module):
    """One score, one normalizer, perhaps a window: prepare the source once, then ask with queries.

    `kernel` is "auto" (the first fused kernel that can run the call, else the reference), "reference", or the
    name of a kernel, which then runs or says why it cannot. With `keep_weights` every result has its scores
    and weights at once, and kernels that do not produce them are skipped.
    """

    def __init__(
        self,
        score: Score | HistoryScore,
        *,
        normalizer: Normalizer | HistoryNormalizer | None = None,
        window: Window | None = None,
        dropout: float = 0.0,
        kernel: str = "auto",
        keep_weights: bool = False,
    ) -> None:
        super().__init__()
        check_part(
            "Attention", "score", score, (Score, HistoryScore), "Give an instance, such as DotScore()."
        )
        if normalizer is not None:
            kinds, hint = (Normalizer, HistoryNormalizer), "Give an instance, such as Softmax()."
            check_part("Attention", "normalizer", normalizer, kinds, hint)
        if window is not None:
            hint = "Give an instance, such as LocalMonotonic(half_width=10)."
            check_part("Attention", "window", window, (Window,), hint)
        check_share("Attention", dropout=dropout)
        check_name(kernel)
        self.score = score
        self.normalizer = Softmax() if normalizer is None else normalizer
        self.window = window
        self.dropout = dropout
        self.kernel = kernel
        self.keep_weights = keep_weights

    def prepare(
        self, keys: Tensor, values: Tensor | None = None, mask: Mask | Tensor | None = None
    ) -> Source:
        """(..., S, Dk), (..., S, Dv) -> the source, with all work done that depends on it alone."""
        values = keys if values is None else values
        check_shapes("Attention", ("keys", keys, "... S Dk"), ("values", values, "... S Dv"))
        mask = Mask.of(mask).fitting("Attention", keys)
        if torch.compiler.is_compiling():
            return self._prepared(keys, values, mask)
        try:
            return self._prepared(keys, values, mask)
        except mistakes.RAW as error:
            if mistake := mistakes.of_keys("Attention", error, self, keys, values):
                raise mistake from error
            raise

    def _prepared(self, keys: Tensor, values: Tensor, mask: Mask) -> Source:
        if mask.is_trivial and self.window is None:  # nothing is hidden
            return Source(self.score.prepare(keys), values, mask)
        keys, values, harmless = silenced(mask, keys, values)
        prepared = self.score.prepare(keys) if harmless else projected(self.score.prepare, keys)
        return Source(prepared, values, mask).known(harmless)

    def __call__(self, *args: Any, **kwargs: Any) -> AttentionResult:
        result: AttentionResult = super().__call__(*args, **kwargs)
        # here, since `forward` is overridden, and calls itself; a compiled graph has no context to ask
        if not torch.compiler.is_compiling() and WATCHERS.get():
            return leave(self, result)
        return result

    def forward(
        self,
        query: Tensor,
        source: Source,
        *,
        history: History | None = None,
        generator: torch.Generator | None = None,
    ) -> AttentionResult:
        """(..., T, Dq), source -> context (..., T, Dv), and the alignment on demand."""
        if torch.compiler.is_compiling():
            return self._attend(query, source, history, generator)
        try:
            return self._attend(query, source, history, generator)
        except mistakes.RAW as error:
            if mistake := mistakes.of_call("Attention", error, self, query, source, history, generator):
                raise mistake from error
            raise

    def _attend(
        self, query: Tensor, source: Source, history: History | None, generator: torch.Generator | None
    ) -> AttentionResult:
        source = _asked(query, source)
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
            mixed = weighted_sum_around_garbage(weights, source.values)
        else:
            mixed = (pick if self._picks(weights, source.values) else weighted_sum)(weights, source.values)
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
        return Call(
            query, source, score, normalizer, self.window, history, dropout, self.keep_weights, garbage
        )

    def _picks(self, weights: Tensor, values: Tensor) -> bool:
        """One value is all that a row needs, and nobody asks for the gradient of the others."""
        gradient = torch.is_grad_enabled() and (weights.requires_grad or values.requires_grad)
        return self.normalizer.one_hot and not gradient and weights.shape[-1] > 0

    def explain(self, query: Tensor, source: Source, *, history: History | None = None) -> Explanation:
        """Which implementation a call with these arguments would take, and why not the others."""
        try:
            return self._explain(query, _asked(query, source), history)
        except mistakes.RAW as error:
            if mistake := mistakes.of_call("Attention", error, self, query, source, history, None):
                raise mistake from error
            raise

    def _explain(self, query: Tensor, source: Source, history: History | None) -> Explanation:
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
            alignment = _one_by_one(result)
        return AttentionResult(
            _apart(result.context),
            kernel=result.kernel,
            rows=1,
            align=lambda targets: _one_by_one(result, targets),
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
        seen = call if alignment is not None else _seen(call)
        return AttentionResult(
            context,
            kernel=kernel,
            rows=call.query.shape[-2],
            # lambdas: a compiled graph cannot hand out a function that carries annotations
            align=lambda targets: _aligned(seen, targets),
            alignment=alignment,
            top=lambda k: largest(seen, k),
            numbers=call.source.keys.numel(),
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
        try:
            return self._align(query, _asked(query, source), history, generator=generator)
        except mistakes.RAW as error:
            if mistake := mistakes.of_call("Attention", error, self, query, source, history, generator):
                raise mistake from error
            raise

    def _align(
        self,
        query: Tensor,
        source: Source,
        history: History | None,
        *,
        targets: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Alignment:
        return _aligned(self._call(query, source, history, 0.0), targets, generator)

    def _log_probability(self, alignment: Alignment) -> Tensor:
        assert isinstance(self.normalizer, HardNormalizer)
        return self.normalizer.log_probability(alignment.scores, alignment.weights)

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}, kernel={self.kernel!r}"


def _aligned(
    call: Call, targets: Tensor | None = None, generator: torch.Generator | None = None
) -> Alignment:
    """Scores and weights (..., T, S); of these queries (R,), if given."""
    scores, factor = scored(call, targets)
    weights = normalized(call, scores, generator)
    if call.garbage:  # who sees it gets NaN, and has no part in any gradient
        seen = not_finite(call.source.keys) & ~scores.isneginf()
        scores = scores.masked_fill(seen, math.nan)
        weights = weights.masked_fill(seen.any(-1, keepdim=True), math.nan)
    return Alignment(scores, weights if factor is None else weights * factor)


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
        window = call.window
        if targets is not None and isinstance(window, Around):
            window = window.of(targets)
        mask, factor = window(query, mask, positions)
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


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """(..., T, S), (..., S, Dv) -> (..., T, Dv) in the dtype of the values, summed in full precision."""
    with no_autocast(values):
        return times(weights, values).to(values.dtype)


def weighted_sum_around_garbage(weights: Tensor, values: Tensor) -> Tensor:
    """`mix` where values may be NaN or infinite: rows that weigh those are NaN, others do not notice."""
    bad = not_finite(values)
    noticed = (weights.isnan() | ((weights != 0) & bad)).any(-1, keepdim=True)
    return weighted_sum(weights.masked_fill(noticed, 0.0), without(values, bad)).masked_fill(
        noticed, math.nan
    )


def pick(weights: Tensor, values: Tensor) -> Tensor:
    """`mix` for rows with one weight that is not zero: only the value that it chooses is read."""
    chosen = weights.argmax(-1, keepdim=True)  # (..., T, 1)
    lead = torch.broadcast_shapes(weights.shape[:-2], values.shape[:-2])  # type: ignore[no-untyped-call]
    places = chosen.expand(*lead, chosen.shape[-2], values.shape[-1])
    picked = values.expand(*lead, *values.shape[-2:]).gather(-2, places)
    return (weights.gather(-1, chosen) * upcast(picked)).to(values.dtype)


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


def largest_products(
    query: Tensor, keys: Tensor, mask: Mask, score: Score, k: int
) -> tuple[Tensor, Tensor] | None:
    """The same for a softmax of the scores of a query and keys that no source was prepared of."""
    return largest(Call(query, Source(keys, keys, mask), score, Softmax(), None, None, 0.0), k)


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


def _seen(call: Call) -> Call:
    """The call as a later look needs it: with the parameters and the precision that it had.

    Most kernels say what they saw. For the others, which are for large calls, what the parts own is copied.
    """
    if call.seen is not None:
        return call.seen
    if _owns_nothing(call.score) and _owns_nothing(call.normalizer) and _owns_nothing(call.window):
        return call
    score, normalizer, window = (copied(part) for part in (call.score, call.normalizer, call.window))
    for part in (score, window):
        if part is not None:
            part.forward = _under_autocast_of(call.query, part.forward)
    return replace(call, score=score, normalizer=normalizer, window=window)


def _under_autocast_of(query: Tensor, run: Any) -> Any:
    """The function under what autocast is now, whatever it is when the function is called."""
    device = query.device.type
    lowered, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)

    def later(*given: Any) -> Any:
        with torch.autocast(device, dtype, enabled=lowered):
            return run(*given)

    return later


def _owns_nothing(part: nn.Module | None) -> bool:
    return part is None or not (part._parameters or part._buffers or part._modules)


def _asked(query: Tensor, source: Source) -> Source:
    """The source as these queries see it, if they fit it."""
    if query.ndim < 2:  # asked first, because a short call feels the check
        check_shapes("Attention", ("query", query, "... T Dq"))
    if not query.is_floating_point():
        raise ShapeError(f"Attention: `query` has dtype {query.dtype}; expected a floating-point dtype.")
    if query.ndim < source.keys.ndim:
        check_axes("Attention", query, source.keys.shape[:-2], source.copies)
    if source.mask.dense is not None:
        source.mask.fitting_queries("Attention", query.shape[-2])
    return source.asked_by(query.shape[-2]) if source.grown else source


def check_axes(owner: str, query: Tensor, rows: torch.Size, copies: int = 1) -> None:
    """Refuse a query that lacks an axis of the source's rows: a state (B, D) is not (T, D) for every row."""
    missing = len(rows) + 2 - query.ndim
    if missing > 0 and copies * prod(rows[:missing]) > 1:
        lead = ", ".join(map(str, (copies * rows[0], *rows[1:])))
        raise ShapeError(
            f"{owner}: `query` has shape {tuple(query.shape)}; expected ({lead}, T, Dq), as many axes as "
            "the source. `query[..., None, :]` is one query for each row, `query[None]` queries that all "
            "rows share."
        )


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


def _one_by_one(together: AttentionResult, targets: Tensor | None = None) -> Alignment:
    """The alignment of queries that asked together, as if each had asked alone."""
    scores, weights = _apart(together.scores), _apart(together.weights)
    if targets is None:
        return Alignment(scores, weights)
    return Alignment(scores[..., targets, :], weights[..., targets, :])


def _needed(part: nn.Module, history: History | None) -> History:
    if history is None:
        raise ShapeError(f"{type(part).__name__} needs `history`; start with History.start(source).")
    return history

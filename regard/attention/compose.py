"""Attention is normalize(score(query, keys), mask) @ values: the module that combines the four parts.

reference.py defines what it computes; dispatch.py decides which fused kernel runs instead.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import reference
from regard.attention.dispatch import Call, check_kernel, choose_kernel, explain
from regard.attention.fitting import apart, asked, together, with_batch_axis
from regard.attention.hidden import guarded, projected, silenced
from regard.attention.history import History
from regard.attention.looks import look, remembered
from regard.attention.mask import Mask
from regard.attention.mistakes import explained, of_call, of_keys
from regard.attention.normalizers.base import Normalizer
from regard.attention.normalizers.hard import HardNormalizer
from regard.attention.normalizers.softmax import Softmax
from regard.attention.paths import Explanation
from regard.attention.result import Alignment, AttentionResult
from regard.attention.scores.base import HistoryScore, Score
from regard.attention.source import Source
from regard.attention.top_k import largest
from regard.attention.trace import WATCHERS, leave
from regard.attention.windows.base import Window
from regard.errors import check_part, check_shapes, check_share


class Attention(nn.Module):
    """A score, a normalizer and an optional window. Prepare the source once, then call with queries.

        attention = Attention(AdditiveScore(query=256, keys=512, hidden=128))
        source = attention.prepare(torch.randn(8, 30, 512), mask=Mask(lengths=[30] * 4 + [25] * 4))
        result = attention(torch.randn(8, 1, 256), source)
        result.context      # (8, 1, 512)
        result.weights      # (8, 1, 30)

    `kernel` is "auto" (the first fused kernel that can run the call, otherwise the reference), "reference",
    or the name of a kernel, which runs or raises `KernelRefused`. With `keep_weights`, every result stores
    its scores and weights, and kernels that do not produce them are skipped.
    """

    def __init__(
        self,
        score: Score | HistoryScore,
        *,
        normalizer: Normalizer | None = None,
        window: Window | None = None,
        dropout: float = 0.0,
        kernel: str = "auto",
        keep_weights: bool = False,
    ) -> None:
        super().__init__()
        normalizer = Softmax() if normalizer is None else normalizer
        for name, part, kinds, example in (
            ("score", score, (Score, HistoryScore), "DotScore()"),
            ("normalizer", normalizer, (Normalizer,), "Softmax()"),
            ("window", window, (Window, type(None)), "LocalMonotonic(half_width=10)"),
        ):
            check_part("Attention", name, part, kinds, f"Give an instance, such as {example}.")
        check_share("Attention", dropout=dropout)
        check_kernel(kernel)
        self.score, self.normalizer, self.window = score, normalizer, window
        self.dropout, self.kernel, self.keep_weights = dropout, kernel, keep_weights

    @explained("Attention", of_keys)
    def prepare(
        self, keys: Tensor, values: Tensor | None = None, mask: Mask | Tensor | None = None
    ) -> Source:
        """(..., S, Dk), (..., S, Dv) -> the source; does all work that depends only on it."""
        values = keys if values is None else values
        if keys.ndim < 2 or keys.shape[:-1] != values.shape[:-1]:
            check_shapes("Attention", ("keys", keys, "... S Dk"), ("values", values, "... S Dv"))
        mask = Mask.of(mask).fitting("Attention", keys)
        if mask.is_trivial and self.window is None:  # nothing is hidden
            return Source(self.score.prepare(keys), values, mask)
        keys, values, harmless = silenced(mask, keys, values)
        prepared = self.score.prepare(keys) if harmless else projected(self.score.prepare, keys)
        return Source(prepared, values, mask).known(harmless)

    def __call__(self, *args: Any, **kwargs: Any) -> AttentionResult:
        result: AttentionResult = super().__call__(*args, **kwargs)
        # not in `forward`, which is overridden and calls itself; compiled graphs cannot read WATCHERS
        if not torch.compiler.is_compiling() and WATCHERS.get():
            return leave(self, result)
        return result

    @explained("Attention", of_call)
    def forward(
        self,
        query: Tensor,
        source: Source,
        *,
        history: History | None = None,
        generator: torch.Generator | None = None,
    ) -> AttentionResult:
        """(..., T, Dq), source -> context (..., T, Dv), and the alignment on demand."""
        return self._attend(query, source, history, generator)

    def _attend(
        self, query: Tensor, source: Source, history: History | None, generator: torch.Generator | None
    ) -> AttentionResult:
        source = asked(query, source)
        if source.copies > 1:
            return self._shared(query, source, history, generator)
        call = self._call(query, source, history, self.dropout if self.training else 0.0)
        kernel = choose_kernel(call, self.kernel)
        if kernel is None:
            alignment = self._align(call, generator)
            return self._result(call, reference.mixed(call, alignment), "reference", alignment)
        fused = kernel.run(call)
        if isinstance(fused, Tensor):
            return self._result(remembered(call), fused, kernel.name)
        return self._result(call, fused.context, kernel.name, fused.alignment)

    def _call(self, query: Tensor, source: Source, history: History | None, dropout: float) -> Call:
        # nn.Module looks up `self.score` in three other places first, which is measurable in a short call
        parts: dict[str, Any] = self._modules
        window = self.window
        if source.mask.lengths is not None and query.ndim != source.keys.ndim:
            query = with_batch_axis(query, source)
        garbage = False
        if not source.is_silent and (window is not None or not source.mask.is_trivial):
            source, harmless = guarded(source)
            garbage = not harmless
        score, normalizer, kept = parts["score"], parts["normalizer"], self.keep_weights
        return Call(query, source, score, normalizer, window, history, dropout, kept, garbage)

    def _align(self, call: Call, generator: torch.Generator | None) -> Alignment:
        return reference.align(call, generator=generator)

    def _shared(
        self, query: Tensor, source: Source, history: History | None, generator: torch.Generator | None
    ) -> AttentionResult:
        """Run queries that share a row of the source as consecutive queries of that row."""
        if self._needs_spread(query, source, history):
            return self.forward(query, source.spread(), history=history, generator=generator)
        queries = together(query, source.copies)
        result = self.forward(queries, source.serving(1), generator=generator)
        return apart(result, self._log_probability())

    def _needs_spread(self, query: Tensor, source: Source, history: History | None) -> bool:
        by_query = history is not None or self.window is not None or source.mask.is_by_query
        return by_query or query.shape[-2] != 1

    def _result(
        self, call: Call, context: Tensor, kernel: str, alignment: Alignment | None = None
    ) -> AttentionResult:
        return AttentionResult(
            context,
            kernel=kernel,
            # lambdas: a compiled graph cannot return a function with annotations
            align=lambda targets: look(call, targets),
            alignment=alignment,
            top=lambda k: largest(call, k),
            numbers=call.source.keys.numel(),
            log_probability=self._log_probability(),
        )

    @explained("Attention", of_call)
    def explain(self, query: Tensor, source: Source, *, history: History | None = None) -> Explanation:
        """Which kernel a call with these arguments would run, and why not the others."""
        source = asked(query, source)
        if source.copies > 1:
            spread = self._needs_spread(query, source, history)
            query = query if spread else together(query, source.copies)
            source = source.spread() if spread else source.serving(1)
        return explain(
            self._call(query, source, history, self.dropout if self.training else 0.0), self.kernel
        )

    @explained("Attention", of_call)
    def align(
        self,
        query: Tensor,
        source: Source,
        *,
        history: History | None = None,
        generator: torch.Generator | None = None,
    ) -> Alignment:
        """(..., T, Dq), source -> scores and weights (..., T, S), without the context."""
        return self._align(self._call(query, asked(query, source).spread(), history, 0.0), generator)

    def _log_probability(self) -> Callable[[Alignment], Tensor] | None:
        """Computes the log-probability of the choice; None if the normalizer makes no choice."""
        normalizer = self._modules["normalizer"]
        if not isinstance(normalizer, HardNormalizer):
            return None
        return lambda alignment: normalizer.log_probability(alignment.scores, alignment.weights)

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}, kernel={self.kernel!r}"

"""Queries in order: many in one call, each seeing where the ones before it attended.

    α_t = normalize(score(q_t, K, H_t), mask_t)            H_0 = History.start(source), unless one is given
    H_{t+1} = H_t.advance(α_t)
    context = α V

A recurrent decoder runs one query at a time, with other work in between, and carries the history itself. A
Transformer has all its queries at once: only the alignment has to go query by query; projections and the
mixing of values serve all queries together. So T queries in one call equal T calls with one query each, and
one result has all their rows.

A growing source may be shorter in those T calls: positions that were not visible yet are zero in the history
(`History.grown`).

What it costs: `regard compare transformer-reverse --scores additive,coverage,location-aware --steps 100`,
means of three seeds on one core of an AMD EPYC: 7,980 tokens a second with the additive score, whose queries
run at once, 4,360 with coverage, 2,730 with the location-aware score, whose convolution takes over a third.
"""

from dataclasses import replace

import torch
from torch import Tensor

from regard.attention.compose import Attention
from regard.attention.dispatch import Call
from regard.attention.history import History
from regard.attention.normalizers.base import Normalizer
from regard.attention.result import Alignment, AttentionResult
from regard.attention.scores.base import HistoryScore, Score
from regard.attention.source import Source
from regard.attention.windows.base import Window
from regard.errors import KernelRefused, check_part


class InOrder(Attention):
    """Attention that looks back, for several queries: each sees the alignments of those before it.

    A plain `Attention` gives all queries of a call the same history. Here they run one after another; without
    `history`, the first starts from an empty one. After a call the history is
    `history.advance(result.weights)`. Weights and history are those before dropout. This always runs the
    reference: a kernel would have to pass the weights of each query to the next.
    """

    def __init__(
        self,
        score: Score | HistoryScore,
        *,
        normalizer: Normalizer | None = None,
        window: Window | None = None,
        dropout: float = 0.0,
        kernel: str = "auto",
    ) -> None:
        if kernel not in ("auto", "reference"):
            raise KernelRefused(
                f"kernel {kernel!r} cannot run queries in order: each reads the weights of those before it; "
                "expected 'auto' or 'reference'."
            )
        super().__init__(score, normalizer=normalizer, window=window, dropout=dropout, kernel="reference")

    def _attend(
        self, query: Tensor, source: Source, history: History | None, generator: torch.Generator | None
    ) -> AttentionResult:
        if history is None:
            source = source.spread()  # each row of the query has a history of its own
            history = History.start(source)
        return super()._attend(query, source, history, generator)

    def _align(self, call: Call, generator: torch.Generator | None) -> Alignment:
        history = History.start(call.source) if call.history is None else call.history
        rows = []
        for t, query in enumerate(torch.split(call.query, 1, -2)):
            step = replace(call, query=query, source=_seen_by(call.source, t), history=history)
            rows.append(super()._align(step, generator))
            history = history.advance(rows[-1].weights)
        return Alignment(*(torch.cat(parts, -2) for parts in zip(*rows, strict=True)))


def in_order(attention: Attention) -> Attention:
    """The attention for a caller that has all queries at once.

    If its score looks back, the result runs the queries one after another and keeps the
    history; otherwise it is the attention itself.

        attention = in_order(Attention(CoverageScore(query=32, keys=64, hidden=32)))
        source = attention.prepare(torch.randn(2, 9, 64))
        attention(torch.randn(2, 4, 32), source).weights        # (2, 4, 9)
    """
    check_part(
        "in_order", "attention", attention, (Attention,), "Give an instance, such as Attention(score)."
    )
    if not isinstance(attention.score, HistoryScore):
        return attention
    return InOrder(
        attention.score,
        normalizer=attention.normalizer,
        window=attention.window,
        dropout=attention.dropout,
        kernel=attention.kernel,
    ).train(attention.training)


def _seen_by(source: Source, t: int) -> Source:
    """The source as query number t of a call sees it."""
    mask = source.mask
    dense = mask.dense
    if dense is not None and dense.ndim > 1 and dense.shape[-2] > 1:
        dense = dense[..., t : t + 1, :]
    return replace(source, mask=replace(mask, dense=dense, offset=mask.offset + t))

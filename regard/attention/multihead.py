"""Multi-head attention: project, split, attend in each head, join, project.

    MultiHead(Q, K, V) = [head_1; …; head_h] W_O                       (section 3.2.2)
    head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i)

    paper             here
    W_Q W_K W_V W_O   W_Q, W_K, W_V, W_O     all heads side by side in one matrix
    h                 heads
    d_k = d_v         dim_head               dim / heads, unless told otherwise

Heads are one more leading axis, (B, H, T, D), because every part of the algebra accepts `...`. Any score can
therefore be multi-headed, and no score knows that heads exist.

Vaswani, Shazeer, Parmar, Uszkoreit, Jones, Gomez, Kaiser, Polosukhin. Attention is all you need. 2017.
https://arxiv.org/abs/1706.03762
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from regard.attention import paths
from regard.attention.compose import Attention
from regard.attention.fitting import check_axes
from regard.attention.hidden import projected, silenced
from regard.attention.history import History
from regard.attention.mask import Mask
from regard.attention.mistakes import explained, of_call, of_keys
from regard.attention.result import AttentionResult
from regard.attention.scores.dot import DotScore
from regard.attention.source import Source
from regard.attention.together import lay_together
from regard.catalog import card
from regard.errors import ConfigError, check_part, check_shapes, check_whole


class SelfCall(NamedTuple):
    """A call of MultiHead whose query is its own source."""

    heads: "MultiHead"
    query: Tensor
    mask: Mask | Tensor | None
    history: History | None


@card(
    "layer",
    "multi-head",
    title="Multi-head attention",
    authors="Vaswani et al.",
    year=2017,
    link="https://arxiv.org/abs/1706.03762",
    sentence="Several attentions side by side, each in its own subspace; any score can be multi-headed.",
)
class MultiHead(nn.Module):
    """Multi-head attention with any score. It has the methods of `Attention`, so the two are interchangeable.

        heads = MultiHead(64, 4)
        x = torch.randn(2, 10, 64)
        heads(x, mask=Mask(causal=True)).context                   # self-attention: (2, 10, 64)
        heads(x, heads.prepare(torch.randn(2, 7, 64))).weights     # cross-attention: (2, 4, 10, 7)

    `attention` is the attention of one head; its sizes are dim / heads. Weights are per head, (B, H, T, S).
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        attention: Attention | None = None,
        dim_head: int | None = None,
        dim_keys: int | None = None,
        dim_values: int | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        check_whole("MultiHead", dim=dim, heads=heads)
        sizes = {"dim_head": dim_head, "dim_keys": dim_keys, "dim_values": dim_values}
        check_whole("MultiHead", **{name: size for name, size in sizes.items() if size is not None})
        if attention is not None:
            check_part(
                "MultiHead", "attention", attention, (Attention,), "Give an instance: Attention(score)."
            )
        if dim_head is None and dim % heads:
            raise ConfigError(f"MultiHead: `heads` has {heads}; expected a divisor of dim={dim}.")
        inner = dim if dim_head is None else heads * dim_head
        self.dim, self.heads = dim, heads
        self.attention = Attention(DotScore()) if attention is None else attention
        self.W_Q = nn.Linear(dim, inner, bias=bias)
        self.W_K = nn.Linear(dim if dim_keys is None else dim_keys, inner, bias=bias)
        self.W_V = nn.Linear(dim if dim_values is None else dim_values, inner, bias=bias)
        self.W_O = nn.Linear(inner, dim, bias=bias)
        lay_together(self.W_Q, self.W_K, self.W_V)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Move or cast the parameters; unchanged ones stay in place: captured graphs may hold addresses."""
        before = [(x.device, x.dtype) for x in self.parameters()]
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if before != [(x.device, x.dtype) for x in self.parameters()]:
            lay_together(self.W_Q, self.W_K, self.W_V)
        return self

    @explained("MultiHead", of_keys)
    def prepare(
        self, keys: Tensor, values: Tensor | None = None, mask: Mask | Tensor | None = None
    ) -> Source:
        """(B, S, Dk), (B, S, Dv) -> the source with heads, (B, H, S, D/H)."""
        values = keys if values is None else values
        parts: dict[str, Any] = self._modules  # attribute lookup through nn.Module slows short calls
        attention, W_K, W_V = parts["attention"], parts["W_K"], parts["W_V"]
        widths = (W_K.in_features, W_V.in_features)
        fit = min(keys.ndim, values.ndim) >= 2 and (keys.shape[-1], values.shape[-1]) == widths
        if not fit or keys.shape[:-1] != values.shape[:-1]:
            given = ("keys", keys, "... S Dk"), ("values", values, "... S Dv")
            check_shapes("MultiHead", *given, Dk=widths[0], Dv=widths[1])
        mask = Mask.of(mask)
        if mask.is_trivial and attention.window is None:  # nothing is hidden
            k, v = self._split(W_K(keys)), self._split(W_V(values))
            return Source(attention.score.prepare(k), v, mask)
        keys, values, harmless = silenced(mask, keys, values)
        if mask.dense is not None and mask.dense.ndim == keys.ndim:
            mask = replace(mask, dense=mask.dense.unsqueeze(-3))  # (B, 1, T, S): the same for each head
        if not harmless:  # NaN or infinity is still visible to some queries (hidden.py)
            k, v = projected(W_K, keys), projected(W_V, values)
            return attention.prepare(self._split(k), self._split(v), mask)
        k, v = self._split(W_K(keys)), self._split(W_V(values))
        return Source(attention.score.prepare(k), v, mask.fitting("Attention", k)).known(True)

    @explained("MultiHead", of_call)
    def forward(
        self,
        query: Tensor,
        source: Source | None = None,
        *,
        mask: Mask | Tensor | None = None,
        history: History | None = None,
        generator: torch.Generator | None = None,
    ) -> AttentionResult:
        """(B, T, dim), source -> context (B, T, dim); weights (B, H, T, S).

        Without a source this is self-attention: the query is its own source, under this mask.
        """
        if source is None:
            call = SelfCall(self, query, mask, history)
            path = paths.choose("self-attention", call)
            if path is not None:
                return path.run(call)
            source = self.prepare(query, mask=mask)
        elif mask is not None:
            raise ConfigError("MultiHead: `mask` is given together with a source; expected it in `prepare`.")
        if query.ndim < 2 or query.shape[-1] != self.dim:
            check_shapes("MultiHead", ("query", query, "... T D"), D=self.dim)
        if query.ndim < source.keys.ndim - 1:
            check_axes("MultiHead", query, source.keys.shape[:-3], source.copies)
        parts: dict[str, Any] = self._modules
        queries = self._split(parts["W_Q"](query))
        heads = parts["attention"](queries, source, history=history, generator=generator)
        joined = heads.context.transpose(-2, -3).flatten(-2)  # (B, T, dim)
        return heads.with_context(parts["W_O"](joined))

    def _split(self, x: Tensor) -> Tensor:
        heads = x.view(*x.shape[:-1], self.heads, x.shape[-1] // self.heads)  # (B, T, H, D/H)
        return heads.transpose(-2, -3)

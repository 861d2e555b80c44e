"""Additive attention: a one-hidden-layer network compares query and key.

    e[t, s] = vᵀ tanh(W q_t + U k_s)                       (appendix A.1.2)

    paper        here      shape
    s_{i-1}      query     (..., T, Dq)    decoder state before step i
    h_j          keys      (..., S, Dk)    annotation of source word j
    W_a U_a v_a  W, U, v

Luong's "concat", vᵀ tanh(W [q_t; k_s]), is the same function: the columns of his W that meet q are W here,
the columns that meet k are U. `AdditiveScore.concat` builds it from his matrix.

Bahdanau, Cho, Bengio. Neural machine translation by jointly learning to align and translate. 2014.
https://arxiv.org/abs/1409.0473
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.forms import Additive
from regard.attention.numerics import is_lowered
from regard.attention.parts import unchanged
from regard.attention.scores.base import Score
from regard.catalog import card
from regard.errors import ShapeError, check_shapes, check_whole


@card(
    "score",
    "concat",
    title="Concat",
    authors="Luong, Pham, Manning",
    year=2015,
    link="https://arxiv.org/abs/1508.04025",
    sentence="The additive score, written as a function of the concatenation [q; k].",
)
@card(
    "score",
    "additive",
    title="Additive",
    authors="Bahdanau, Cho, Bengio",
    year=2014,
    link="https://arxiv.org/abs/1409.0473",
    sentence="A one-hidden-layer network compares query and key.",
)
class AdditiveScore(Score):
    """vᵀ tanh(W q + U k), with U k prepared once per source.

    With `query=None` the queries are already W q, for a recurrence that projects them with its other inputs.
    """

    FORM = Additive

    def __init__(self, *, query: int | None, keys: int, hidden: int) -> None:
        super().__init__()
        check_whole("AdditiveScore", query=1 if query is None else query, keys=keys, hidden=hidden)
        self.W = Projected(hidden) if query is None else nn.Linear(query, hidden, bias=False)
        self.U = nn.Linear(keys, hidden)  # the paper leaves biases out of its notation; one is enough
        self.v = nn.Linear(hidden, 1, bias=False)

    @classmethod
    def concat(cls, W: Tensor, v: Tensor, *, query: int) -> "AdditiveScore":
        """The score vᵀ tanh(W [q; k]) from Luong's matrices: W (hidden, Dq + Dk), v (hidden,)."""
        check_shapes("AdditiveScore.concat", ("W", W, "D Dqk"), ("v", v, "D"))
        check_whole("AdditiveScore.concat", query=query)
        if query >= W.shape[1]:
            raise ShapeError(
                f"AdditiveScore.concat: `W` has shape {tuple(W.shape)}; expected (D, Dq + Dk), Dq={query}."
            )
        score = cls(query=query, keys=W.shape[1] - query, hidden=W.shape[0]).to(W)
        assert isinstance(score.W, nn.Linear)
        with torch.no_grad():
            score.W.weight.copy_(W[:, :query])
            score.U.weight.copy_(W[:, query:])
            score.U.bias.zero_()
            score.v.weight.copy_(v[None])
        return score

    def prepare(self, keys: Tensor) -> Tensor:
        check_shapes("AdditiveScore", ("keys", keys, "... S Dk"), Dk=self.U.in_features)
        return self.U(keys)

    def form(self, query: Tensor, keys: Tensor) -> Additive:
        parts: dict[str, Any] = self._modules  # faster than attributes of nn.Module, at every decoder step
        W, v = parts["W"], parts["v"]._parameters["weight"]
        if query.shape[-1] != W.in_features or keys.shape[-1] != W.out_features:
            shapes = ("query", query, "... T Dq"), ("keys", keys, "... S D")
            check_shapes("AdditiveScore", *shapes, Dq=W.in_features, D=W.out_features)
        weight = W._parameters.get("weight")
        if type(W) is nn.Linear and weight.dtype is query.dtype and unchanged(W) and not is_lowered(query):
            return Additive(query, keys, v, weight)
        # autocast may have made the query half precision, and have ended since
        return Additive(W(query.to(v.dtype)), keys, v)


class NewestScore(AdditiveScore):
    """vᵀ tanh(W q + U k) + b for the last position, over a memory that grows while it is read.

    Such a memory, like the tapes of an LSTMN, mostly reads its newest slot. The keys do not encode position:
    without b the score would have to recognize the slot by its contents. b is learnt and starts at `ahead`.
    """

    def __init__(self, *, query: int | None, keys: int, hidden: int, ahead: float) -> None:
        super().__init__(query=query, keys=keys, hidden=hidden)
        self.newest = nn.Parameter(torch.tensor(float(ahead)))

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        scores = super().forward(query, keys)
        last = torch.arange(scores.shape[-1], device=scores.device) == scores.shape[-1] - 1
        return scores + self.newest.to(scores.dtype) * last


class Projected(nn.Identity):
    """Stands in for W when it has already been applied."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.in_features = self.out_features = features

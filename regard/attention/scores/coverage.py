"""Coverage: the additive score also sees how much of each source word has been translated.

    e[i, j] = vᵀ tanh(W t_{i-1} + U h_j + V C_{i-1,j})     (equation 5)
    C_{i,j} = (Σ_{k≤i} α_{k,j}) / Φ_j                      (equation 6, linguistic coverage)
    Φ_j = N · σ(U_f h_j)                                   (equation 7, fertility)

    paper     here                    shape
    t_{i-1}   query                   (..., T, Dq)
    h_j       keys                    (..., S, Dk)
    Σ α_k     history.cumulative      (..., 1, S)
    N         fertility               the most words one source word may become; the paper takes 2

Tu, Lu, Liu, Liu, Li. Modeling coverage for neural machine translation. 2016. https://arxiv.org/abs/1601.04811
"""

import torch
from torch import Tensor, nn

from regard.attention.forms import Additive
from regard.attention.history import History
from regard.attention.numerics import upcast
from regard.attention.scores.base import HistoryScore
from regard.catalog import card
from regard.errors import check_finite, check_shapes, check_whole


@card(
    "score",
    "coverage",
    title="Coverage",
    authors="Tu, Lu, Liu, Liu, Li",
    year=2016,
    link="https://arxiv.org/abs/1601.04811",
    sentence="The additive score also sees how much of each source word has been translated.",
)
class CoverageScore(HistoryScore):
    """vᵀ tanh(W q + U k + V C), with U k and the fertility prepared once per source."""

    def __init__(self, *, query: int, keys: int, hidden: int, fertility: float = 2.0) -> None:
        super().__init__()
        check_whole("CoverageScore", query=query, keys=keys, hidden=hidden)
        check_finite("CoverageScore", above=0, fertility=fertility)
        self.fertility = fertility
        self.W = nn.Linear(query, hidden, bias=False)
        self.U = nn.Linear(keys, hidden)
        self.V = nn.Linear(1, hidden, bias=False)
        self.U_f = nn.Linear(keys, 1, bias=False)
        self.v = nn.Linear(hidden, 1, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        """(..., S, Dk) -> (..., S, hidden + 1): U k, and the fertility Φ as the last feature."""
        check_shapes("CoverageScore", ("keys", keys, "... S Dk"), Dk=self.U.in_features)
        return torch.cat([self.U(keys), self.fertility * torch.sigmoid(self.U_f(keys))], -1)

    def forward(self, query: Tensor, keys: Tensor, history: History) -> Tensor:
        shapes = ("query", query, "... T Dq"), ("keys", keys, "... S Dp")
        check_shapes("CoverageScore", *shapes, Dq=self.W.in_features, Dp=self.v.in_features + 1)
        keys, fertility = upcast(keys[..., :-1]), upcast(keys[..., -1:])
        # σ can underflow in half precision; a word of zero fertility is covered at once, but not infinitely
        coverage = upcast(history.cumulative).mT / fertility.clamp_min(1e-6)  # (..., S, 1)
        keys = keys + coverage * upcast(self.V.weight).squeeze(-1)
        query = query.to(self.v.weight.dtype)  # as in AdditiveScore
        return Additive(self.W(query), keys, self.v.weight).scores()

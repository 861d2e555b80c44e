"""Concatenation with a rectifier: one vector weighs both sides, and negative results count as zero.

    e[t, s] = ReLU(w_fᵀ [θ(x_t), φ(x_s)])                  (equation 7)

    paper    here      shape
    θ(x_i)   query     (..., T, Dq)
    φ(x_j)   keys      (..., S, Dk)
    w_f      W, U      its part that meets the query, its part that meets the keys

The product with w_f is a sum of two numbers, one for each side; the keys' is prepared once per source. The
paper divides by the number of positions instead of taking a softmax (see normalizers/divide_by_length.py).

Wang, Girshick, Gupta, He. Non-local neural networks. 2018. https://arxiv.org/abs/1711.07971
"""

import torch
from torch import Tensor, nn

from regard.attention.numerics import upcast
from regard.attention.scores.base import Score
from regard.catalog import card
from regard.errors import check_shapes, check_whole


@card(
    "score",
    "rectified",
    title="Rectified concatenation",
    authors="Wang, Girshick, Gupta, He",
    year=2018,
    link="https://arxiv.org/abs/1711.07971",
    sentence="One vector weighs the concatenation of query and key; negative results count as zero.",
)
class RectifiedScore(Score):
    """ReLU(w · [q; k]), with the keys' part prepared once per source."""

    def __init__(self, *, query: int, keys: int) -> None:
        super().__init__()
        check_whole("RectifiedScore", query=query, keys=keys)
        self.W = nn.Linear(query, 1, bias=False)
        self.U = nn.Linear(keys, 1, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        check_shapes("RectifiedScore", ("keys", keys, "... S Dk"), Dk=self.U.in_features)
        return self.U(keys)  # (..., S, 1)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        shapes = ("query", query, "... T Dq"), ("keys", keys, "... S D")
        check_shapes("RectifiedScore", *shapes, Dq=self.W.in_features, D=1)
        # autocast may have made the query half precision, and have ended since
        query = query.to(self.W.weight.dtype)
        return torch.relu(upcast(self.W(query)) + upcast(keys).mT)  # (..., T, 1) + (..., 1, S)

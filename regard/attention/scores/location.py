"""Location-based attention: positions are scored from the query alone.

    e[t, s] = (W q_t)_s                                    (section 3.1, "location", equation 8)

    paper    here      shape
    h_t      query     (..., T, Dq)
    W_a      W         positions × Dq

Short sentences use the first part of the vector; words beyond its last position are ignored: they score -inf.

Luong, Pham, Manning. Effective approaches to attention-based neural machine translation. 2015.
https://arxiv.org/abs/1508.04025
"""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.numerics import exact, times
from regard.attention.scores.base import Score
from regard.errors import check_shapes


class LocationScore(Score):
    """W q, one number per source position; the keys lend only their count."""

    def __init__(self, *, query: int, positions: int) -> None:
        super().__init__()
        self.W = nn.Linear(query, positions, bias=False)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        check_shapes("LocationScore", ("query", query, "... T Dq"), Dq=self.W.in_features)
        S, positions = keys.shape[-2], self.W.out_features
        with exact(query):
            scores = times(query, self.W.weight[:S].mT)
        return scores if positions >= S else F.pad(scores, (0, S - positions), value=-math.inf)

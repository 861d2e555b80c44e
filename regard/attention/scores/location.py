"""Location-based attention: positions are scored from the query alone.

    e[t, s] = (W q_t)_s                                    (section 3.1, "location", equation 8)

    paper    here      shape
    h_t      query     (..., T, Dq)
    W_a      W         positions × Dq

Short sentences use the first part of the vector; words beyond its end are ignored: their score is -inf.

Luong, Pham, Manning. Effective approaches to attention-based neural machine translation. 2015.
https://arxiv.org/abs/1508.04025
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.numerics import no_autocast, times
from regard.attention.scores.base import Score
from regard.catalog import card
from regard.errors import check_shapes, check_whole


@card(
    "score",
    "location",
    title="Location-based",
    authors="Luong, Pham, Manning",
    year=2015,
    link="https://arxiv.org/abs/1508.04025",
    sentence="Positions are scored from the query alone.",
)
class LocationScore(Score):
    """W q, one number per source position; only the number of keys matters."""

    positional = True

    why_reference = "the scores are one product of the query with a matrix, there is nothing to fuse"

    def __init__(self, *, query: int, positions: int) -> None:
        super().__init__()
        check_whole("LocationScore", query=query, positions=positions)
        self.W = nn.Linear(query, positions, bias=False)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        check_shapes("LocationScore", ("query", query, "... T Dq"), Dq=self.W.in_features)
        S, positions = keys.shape[-2], self.W.out_features
        with no_autocast(query):
            scores = times(query, self.W.weight[:S].mT)
        if scores.shape[:-2] != keys.shape[:-2]:  # a query shared by several rows of keys scores them alike
            lead = torch.broadcast_shapes(scores.shape[:-2], keys.shape[:-2])  # type: ignore[no-untyped-call]
            scores = scores.expand(*lead, *scores.shape[-2:])
        return scores if positions >= S else F.pad(scores, (0, S - positions), value=-math.inf)

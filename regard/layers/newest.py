"""Additive attention over a growing memory whose newest slot is ahead of the others by a learnt number.

    e[t, s] = vᵀ tanh(W q_t + U k_s) + b [s is the last slot]

A memory that is read before each writing, as the tapes of an LSTMN are, needs its last slot most of the time.
Its place is no feature of the keys, so that without b the score must learn to know it by its contents.
"""

import torch
from torch import Tensor, nn

from regard.attention.scores.additive import AdditiveScore


class NewestScore(AdditiveScore):
    """vᵀ tanh(W q + U k), and `newest` for the last slot, which starts as `ahead`."""

    def __init__(self, *, query: int | None, keys: int, hidden: int, ahead: float) -> None:
        super().__init__(query=query, keys=keys, hidden=hidden)
        self.newest = nn.Parameter(torch.tensor(float(ahead)))

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        scores = super().forward(query, keys)
        last = torch.arange(scores.shape[-1], device=scores.device) == scores.shape[-1] - 1
        return scores + self.newest.to(scores.dtype) * last

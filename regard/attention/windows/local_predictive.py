"""Local attention, predictive: the centre of the window is predicted, and weights fall off around it.

    p_t = S · σ(v_pᵀ tanh(W_p h_t))                        (equation 9)
    a_t(s) = align(h_t, h̄_s) exp(-(s - p_t)² / 2σ²),  σ = D / 2        (equation 10)

    paper     here
    h_t       query       (..., T, Dq)
    p_t       p           (..., T, 1), a real number; positions are counted from 0
    W_p v_p   W, v
    S         length      one past the last visible source position
    D         half_width  the paper takes 10

The Gaussian multiplies the weights after the softmax, without renormalising; W and v get their gradient
through it.

Luong, Pham, Manning. Effective approaches to attention-based neural machine translation. 2015.
https://arxiv.org/abs/1508.04025
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.numerics import upcast
from regard.attention.windows.base import View, Window, source_length
from regard.catalog import card
from regard.errors import check_shapes, check_whole


class Around(NamedTuple):
    """The window of queries with known centres."""

    p: Tensor  # (..., T, 1)
    half_width: int

    def __call__(self, query: Tensor, mask: Tensor, positions: Tensor) -> View:
        s = torch.arange(mask.shape[-1], device=mask.device)
        distance = s - self.p
        factor = torch.exp(-distance.square() / (2 * (self.half_width / 2) ** 2))
        return View(mask & (distance.abs() <= self.half_width), factor)

    def of(self, targets: Tensor) -> "Around":
        """(R,) -> the window of these queries."""
        return Around(self.p[..., targets, :], self.half_width)


@card(
    "window",
    "local-predictive",
    title="Local attention, predictive (local-p)",
    authors="Luong, Pham, Manning",
    year=2015,
    link="https://arxiv.org/abs/1508.04025",
    sentence="A window whose centre is predicted, with weights that fall off around it.",
)
class LocalPredictive(Window):
    """A Gaussian with standard deviation D/2 around a predicted position, cut off at D."""

    sums_to_one = False

    positional = True

    def __init__(self, *, query: int, hidden: int, half_width: int) -> None:
        super().__init__()
        check_whole("LocalPredictive", query=query, hidden=hidden, half_width=half_width)
        self.W = nn.Linear(query, hidden, bias=False)
        self.v = nn.Linear(hidden, 1, bias=False)
        self.half_width = half_width

    def centre(self, query: Tensor, length: Tensor | int) -> Tensor:
        """(..., T, Dq), lengths (..., T or 1, 1) or one number -> p (..., T, 1)."""
        check_shapes("LocalPredictive", ("query", query, "... T Dq"), Dq=self.W.in_features)
        # autocast may have made the query half precision, and have ended since
        query = query.to(self.W.weight.dtype)
        return length * torch.sigmoid(upcast(self.v(torch.tanh(self.W(query)))))

    def forward(self, query: Tensor, mask: Tensor, positions: Tensor) -> View:
        return Around(self.centre(query, source_length(mask)), self.half_width)(query, mask, positions)

    def extra_repr(self) -> str:
        return f"half_width={self.half_width}"

"""Division by the number of positions: the scores themselves weigh, whatever their sign and sum.

    w[t, s] = e[t, s] / N                                  N positions visible from t; C(x) = N (section 3.2)

    paper     here      shape
    f         scores    (..., T, S)
    C(x)      N         (..., T, 1)

Rows need not sum to 1, and weights may be negative. The divisor is a count and not Σ f, which keeps the
gradient simple and treats inputs of any size alike.

Wang, Girshick, Gupta, He. Non-local neural networks. 2018. https://arxiv.org/abs/1711.07971
"""

import torch
from torch import Tensor

from regard.attention.normalizers.base import Normalizer
from regard.catalog import card


@card(
    "normalizer",
    "divide-by-length",
    title="Division by the number of positions",
    authors="Wang, Girshick, Gupta, He",
    year=2018,
    link="https://arxiv.org/abs/1711.07971",
    sentence="The scores themselves, divided by the number of visible positions; rows need not sum to 1.",
)
class DivideByLength(Normalizer):
    """The score of each visible position, divided by how many there are."""

    sums_to_one = False

    def normalize(self, scores: Tensor) -> Tensor:
        hidden = torch.isneginf(scores)
        N = (~hidden).to(scores.dtype).sum(-1, keepdim=True)
        return scores.masked_fill(hidden, 0.0) / N

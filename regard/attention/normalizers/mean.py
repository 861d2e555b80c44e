"""The mean: every visible position has the same weight. What attention replaces.

    α[t, s] = 1 / N                                        N positions visible from t

The scores are ignored: this is global average pooling, with the normalisation factor C(x) = N of the
dot-product form of non-local networks.

Wang, Girshick, Gupta, He. Non-local neural networks. 2018. https://arxiv.org/abs/1711.07971
"""

import torch
from torch import Tensor

from regard.attention.normalizers.base import Normalizer
from regard.catalog import card


@card(
    "normalizer",
    "mean",
    title="Mean (1/N)",
    authors="Wang, Girshick, Gupta, He",
    year=2018,
    link="https://arxiv.org/abs/1711.07971",
    sentence="Every visible position has the same weight: the baseline that attention replaces.",
)
class Mean(Normalizer):
    """1 / N for each of the N visible positions."""

    differentiable = False

    def normalize(self, scores: Tensor) -> Tensor:
        visible = (~torch.isneginf(scores)).to(scores.dtype)
        return visible / visible.sum(-1, keepdim=True)

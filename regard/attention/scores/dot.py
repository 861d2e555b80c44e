"""Dot product, plain (Luong 2015) and scaled (Vaswani 2017): one equation, one optional scale.

    e[t, s] = q_t · k_s                                    Luong: section 3.1, "dot"
    e[t, s] = q_t · k_s / √D                               Vaswani: equation 1

    Luong    Vaswani   here      shape
    h_t      Q         query     (..., T, D)
    h̄_s      K         keys      (..., S, D)
             1/√d_k    scale     None: computed from D

If the components of q and k have variance 1, their product has variance D; without the scale the softmax of
wide vectors is nearly one-hot and its gradient vanishes.

Luong, Pham, Manning. Effective approaches to attention-based neural machine translation. 2015.
https://arxiv.org/abs/1508.04025
Vaswani et al. Attention is all you need. 2017. https://arxiv.org/abs/1706.03762
"""

import math

from torch import Tensor

from regard.attention.forms import Product
from regard.attention.scores.base import ProductScore
from regard.catalog import card
from regard.errors import check_finite, check_shapes


@card(
    "score",
    "scaled-dot",
    title="Scaled dot product",
    authors="Vaswani et al.",
    year=2017,
    link="https://arxiv.org/abs/1706.03762",
    sentence="The inner product divided by √D, so that wide vectors do not saturate the softmax.",
)
@card(
    "score",
    "dot",
    title="Dot product",
    authors="Luong, Pham, Manning",
    year=2015,
    link="https://arxiv.org/abs/1508.04025",
    sentence="Query and key are compared by their inner product.",
    scale=1.0,
)
class DotScore(ProductScore):
    """q · k times a scale: None is 1/√D (scaled dot product), 1.0 is the plain dot product."""

    equal_sizes = True

    def __init__(self, scale: float | None = None) -> None:
        super().__init__()
        if scale is not None:
            check_finite("DotScore", scale=scale)
        self.scale = scale

    def factor(self, D: int) -> float:
        """The scale of q · k for vectors of D features."""
        return 1 / math.sqrt(max(D, 1)) if self.scale is None else self.scale  # if D = 0, all scores are 0

    def form(self, query: Tensor, keys: Tensor) -> Product:
        if query.shape[-1] != keys.shape[-1]:
            check_shapes("DotScore", ("query", query, "... T D"), ("keys", keys, "... S D"))
        return Product(query, keys, self.factor(query.shape[-1]))

    def extra_repr(self) -> str:
        return "scale=1/√D" if self.scale is None else f"scale={self.scale:g}"

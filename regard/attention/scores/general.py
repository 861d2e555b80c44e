"""General (bilinear) score: a learned matrix between query and key.

    e[t, s] = q_tᵀ W k_s                                   (section 3.1, "general")

    paper    here      shape
    h_t      query     (..., T, Dq)
    h̄_s      keys      (..., S, Dk)
    W_a      W         Dq × Dk, applied to the keys once per source

Luong, Pham, Manning. Effective approaches to attention-based neural machine translation. 2015.
https://arxiv.org/abs/1508.04025
"""

from torch import Tensor, nn

from regard.attention.forms import Product
from regard.attention.scores.base import ProductScore
from regard.catalog import card
from regard.errors import check_shapes, check_whole


@card(
    "score",
    "general",
    title="General (bilinear)",
    authors="Luong, Pham, Manning",
    year=2015,
    link="https://arxiv.org/abs/1508.04025",
    sentence="A learned matrix stands between query and key.",
)
class GeneralScore(ProductScore):
    """qᵀ W k, with W k prepared once per source; query and keys may differ in size."""

    def __init__(self, *, query: int, keys: int) -> None:
        super().__init__()
        check_whole("GeneralScore", query=query, keys=keys)
        self.W = nn.Linear(keys, query, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        check_shapes("GeneralScore", ("keys", keys, "... S Dk"), Dk=self.W.in_features)
        return self.W(keys)

    def form(self, query: Tensor, keys: Tensor) -> Product:
        Dq = self.W.out_features
        check_shapes("GeneralScore", ("query", query, "... T Dq"), ("keys", keys, "... S Dq"), Dq=Dq)
        return Product(query, keys)

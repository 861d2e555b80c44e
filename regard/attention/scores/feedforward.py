"""Decomposable score: both sides pass through the same network, then a dot product.

    e[t, s] = F(a_t) · F(b_s)                              (equation 1)

    paper    here      shape
    ā_i      query     (..., T, D)
    b̄_j      keys      (..., S, D)
    F        F         two layers with ReLU, shared by both sides

F is applied T + S times, not T · S times: this is what makes the attention decomposable.

Parikh, Täckström, Das, Uszkoreit. A decomposable attention model for natural language inference. 2016.
https://arxiv.org/abs/1606.01933
"""

from typing import Any

from torch import Tensor, nn

from regard.attention.forms import Product
from regard.attention.parts import Sizes
from regard.attention.scores.base import ProductScore
from regard.catalog import card
from regard.errors import check_shapes, check_share, check_whole


@card(
    "score",
    "feedforward",
    title="Feed-forward (decomposable)",
    authors="Parikh et al.",
    year=2016,
    link="https://arxiv.org/abs/1606.01933",
    sentence="Both sides pass through the same network, then a dot product.",
)
class FeedForwardScore(ProductScore):
    """F(a) · F(b), with F(b) prepared once per source."""

    equal_sizes = True

    def __init__(self, *, dim: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_whole("FeedForwardScore", dim=dim, hidden=hidden)
        check_share("FeedForwardScore", dropout=dropout)
        self.dim, self.hidden = dim, hidden
        self.F = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(dim, hidden), nn.ReLU(),
            nn.Dropout(dropout), nn.Linear(hidden, hidden), nn.ReLU(),
        )  # fmt: skip

    @classmethod
    def build(cls, sizes: Sizes, **options: Any) -> "FeedForwardScore":
        return cls(dim=sizes.query, hidden=sizes.hidden, **options)

    def prepare(self, keys: Tensor) -> Tensor:
        check_shapes("FeedForwardScore", ("keys", keys, "... S D"), D=self.dim)
        return self.F(keys)

    def form(self, query: Tensor, keys: Tensor) -> Product:
        shapes = ("query", query, "... T D"), ("keys", keys, "... S Dp")
        check_shapes("FeedForwardScore", *shapes, D=self.dim, Dp=self.hidden)
        # autocast may have made the query half precision, and have ended since
        return Product(self.F(query.to(next(self.parameters()).dtype)), keys)

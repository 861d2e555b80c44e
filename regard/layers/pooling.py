"""Pooling: many positions become one vector, by their mean or by attention with a learnt query.

    attention    e_s = vᵀ tanh(U h_s + b),   α = softmax(e),   c = Σ_s α_s h_s           (equations 5 to 7)
    average      α_s = 1 / S

    paper     here        shape
    h_it      x           (B, S, D)
    W_w b_w   U           of the score
    u_w       v           the learnt query: what an informative position looks like

Global average pooling is the same attention with equal weights, so both are drawn and masked alike. They
differ only in the weights: 1 / S for every position, or as much as the position matters.

Yang, Yang, Dyer, He, Smola, Hovy. Hierarchical attention networks for document classification. 2016.
https://aclanthology.org/N16-1174
Lin, Chen, Yan. Network in network. 2014 (the average). https://arxiv.org/abs/1312.4400
"""

from typing import Literal

from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.config import build_part
from regard.attention.mask import Mask
from regard.attention.normalizers.mean import Mean
from regard.attention.parts import Sizes
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.dot import DotScore
from regard.catalog import card
from regard.errors import check_shapes

PoolingName = Literal["attention", "average"]


class Pooling(nn.Module):
    """An attention with a single query, the same for every example."""

    def __init__(self, attention: Attention, query: int) -> None:
        super().__init__()
        self.attention = attention
        self.query = query  # its size

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        """(B, S, D) -> (B, D)."""
        check_shapes(type(self).__name__, ("x", x, "B S D"))
        query = x.new_zeros(len(x), 1, self.query)  # the learnt part is in the score
        return self.attention(query, self.attention.prepare(x, x, mask)).context[:, 0]


@card(
    "layer",
    "attention-pooling",
    title="Attention pooling",
    authors="Yang et al.",
    year=2016,
    link="https://aclanthology.org/N16-1174",
    sentence="Many positions become one vector, weighted by attention with a learnt query.",
)
class AttentionPooling(Pooling):
    """Pooling with a learnt query."""

    def __init__(
        self, *, inputs: int, hidden: int, normalizer: str = "softmax", kernel: str = "auto"
    ) -> None:
        normalize = build_part("normalizer", normalizer, Sizes(query=hidden, keys=inputs, hidden=hidden))
        score = AdditiveScore(query=None, keys=inputs, hidden=hidden)
        super().__init__(Attention(score, normalizer=normalize, kernel=kernel), hidden)


class AveragePooling(Pooling):
    """Pooling with equal weights."""

    def __init__(self, *, inputs: int) -> None:
        super().__init__(Attention(DotScore(), normalizer=Mean()), inputs)


def build_pooling(name: PoolingName, *, inputs: int, hidden: int) -> Pooling:
    """The pooling of this name."""
    if name == "attention":
        return AttentionPooling(inputs=inputs, hidden=hidden)
    return AveragePooling(inputs=inputs)

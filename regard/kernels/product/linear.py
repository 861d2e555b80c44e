"""Normalizers for which the sum over the source needs no row of weights for each query.

    mean               context_t = Σ_s v_s / N                            the scores do not matter
    divide-by-length   context_t = Σ_s (c q_t·k_s) v_s / N = q_t · (c / N Σ_s k_s v_sᵀ)

    here     shape
    q        (..., T, D)
    k        (..., S, D)
    v        (..., S, Dv)
    c        the score's scale
    N        visible positions, the same for all queries

No T × S tensor is made, forward or backward. The second formula is how attention without a softmax becomes
linear in the length (Katharopoulos et al. 2020, equation 5).

Wang, Girshick, Gupta, He. Non-local neural networks. 2018. https://arxiv.org/abs/1711.07971
Katharopoulos, Vyas, Pappas, Fleuret. Transformers are RNNs. 2020. https://arxiv.org/abs/2006.16236
"""

from torch import Tensor

from regard.attention.dispatch import Call, Kernel
from regard.attention.forms import Additive, Product
from regard.attention.normalizers.divide_by_length import DivideByLength
from regard.attention.normalizers.mean import Mean
from regard.attention.numerics import no_autocast, times, upcast
from regard.catalog import card
from regard.kernels.product.products import product, refuses_dtypes
from regard.kernels.shapes import leading

BY_QUERY = "queries see different positions"


@card(
    "kernel",
    "mean",
    title="The mean without weights",
    authors="regard",
    year=2026,
    link="https://arxiv.org/abs/1711.07971",
    sentence="One sum over the values for all queries; no score is computed.",
)
class MeanKernel(Kernel):
    """The mean of the values, once for all queries."""

    name = "mean"
    forms = (Product, Additive)  # whose scores are never -inf, which would hide a position
    normalizers = (Mean,)

    def refuses(self, call: Call) -> str | None:
        return BY_QUERY if call.source.mask.is_by_query else None

    def run(self, call: Call) -> Tensor:
        values, inverse = _visible(call)
        mean = (values.sum(-2, keepdim=True) * inverse).to(call.source.values.dtype)
        lead = leading(call.query, call.source.keys, mean)
        return mean.expand(*lead, call.query.shape[-2], mean.shape[-1]).contiguous()


@card(
    "kernel",
    "divide-by-length",
    title="Division by the length, keys and values first",
    authors="regard",
    year=2026,
    link="https://arxiv.org/abs/2006.16236",
    sentence="Multiplies keys and values first, then the result with the queries: linear in the length.",
)
class DivideByLengthKernel(Kernel):
    """Keys and values first, then the queries."""

    name = "divide-by-length"
    forms = (Product,)
    normalizers = (DivideByLength,)

    def refuses(self, call: Call) -> str | None:
        if call.source.mask.is_by_query:
            return BY_QUERY
        if fewer_products(call):
            return "for so few queries and positions, scoring each pair takes fewer products"
        return refuses_dtypes(call)

    def run(self, call: Call) -> Tensor:
        form = product(call)
        values, inverse = _visible(call)
        with no_autocast(call.query):
            both = times(form.keys.mT, values) * (inverse * form.scale)  # (..., D, Dv)
            return times(form.query, both).to(call.source.values.dtype)


def fewer_products(call: Call) -> bool:
    """Whether the weights of all pairs are cheaper than the product of keys and values."""
    (T, D), (S, Dv) = call.query.shape[-2:], call.source.values.shape[-2:]
    return T * S * (D + Dv) < (T + S) * D * Dv


MEAN, DIVIDE_BY_LENGTH = MeanKernel(), DivideByLengthKernel()


def _visible(call: Call) -> tuple[Tensor, Tensor | float]:
    """The values (..., S, Dv) in full precision, zero where hidden; 1 / N (..., 1, 1), arbitrary if N = 0."""
    source = call.source
    values, shown = upcast(source.values), source.visible(call.query)
    if shown is None:
        return values, 1.0 / max(1, source.S)
    shown = shown.expand(*shown.shape[:-1], source.S).reshape(*shown.shape[:-2], source.S, 1)
    count = shown.sum(-2, keepdim=True).clamp(min=1).to(values.dtype)
    return values.masked_fill(~shown, 0.0), count.reciprocal()

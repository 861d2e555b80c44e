"""Content-based attention: cosine similarity, sharpened by a key strength.

    e[t, s] = β_t · (q_t · k_s) / (‖q_t‖ ‖k_s‖)            (equations 5 and 6)

    paper    here      shape
    k_t      query     (..., T, D)     the key vector a head emits
    M_t(i)   keys      (..., S, D)     memory row i
    β_t      strength  number, or emitted from the query

Graves, Wayne, Danihelka. Neural Turing machines. 2014. https://arxiv.org/abs/1410.5401
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import paths
from regard.attention.forms import Product
from regard.attention.numerics import no_autocast, upcast
from regard.attention.scores.base import ProductScore
from regard.catalog import card
from regard.errors import check_finite, check_shapes, check_whole

STRONGEST = 6.0  # above this strength, cosines stay in full precision


@card(
    "score",
    "cosine",
    title="Content-based (cosine)",
    authors="Graves, Wayne, Danihelka",
    year=2014,
    link="https://arxiv.org/abs/1410.5401",
    sentence="Cosine similarity, sharpened by a key strength.",
)
class CosineScore(ProductScore):
    """β cos(q, k). β is the number `strength`, or softplus(w · q + b) when `query` gives the size of q."""

    equal_sizes = True

    def __init__(self, *, strength: float = 1.0, query: int | None = None) -> None:
        super().__init__()
        check_finite("CosineScore", strength=strength)
        if query is not None:
            check_whole("CosineScore", query=query)
        self.strength = strength
        self.beta = None if query is None else nn.Linear(query, 1)

    def prepare(self, keys: Tensor) -> Tensor:
        return unit(keys)

    def directions(self, query: Tensor) -> Tensor:
        """β q / ‖q‖, which multiplies the unit keys."""
        if self.beta is None:
            return unit(query) * self.strength
        with no_autocast(query):  # under autocast the query may be half precision while β's weights are not
            weight, bias = upcast(self.beta.weight), upcast(self.beta.bias)
            beta = F.softplus(F.linear(upcast(query).to(weight.dtype), weight, bias))
            scaled, norm = _by_length(query)
            return scaled * (beta / norm)  # one factor per query saves a pass over the features

    def form(self, query: Tensor, keys: Tensor) -> Product:
        check_shapes("CosineScore", ("query", query, "... T D"), ("keys", keys, "... S D"))
        return Product(self.directions(query), keys)

    def half_form(self, query: Tensor, keys: Tensor) -> Product:
        """The directions, rounded once to the precision of the query.

        The strength multiplies the rounding error. A fixed strength is checked here; a learnt one cannot be
        (docs/explanation/kernels.md says how far it may go).
        """
        if self.beta is None and abs(self.strength) > STRONGEST:
            return self.form(query, keys)
        check_shapes("CosineScore", ("query", query, "... T D"), ("keys", keys, "... S D"))
        path = paths.choose("cosine-query", (self, query))
        rounded = self.directions(query).to(query.dtype) if path is None else path.run((self, query))
        return Product(rounded, keys)

    def extra_repr(self) -> str:
        return "strength from the query" if self.beta is not None else f"strength={self.strength:g}"


def unit(x: Tensor) -> Tensor:
    """Unit vectors, in full precision; the zero vector stays zero, so its cosine is 0."""
    scaled, norm = _by_length(x)
    return scaled / norm


def _by_length(x: Tensor) -> tuple[Tensor, Tensor]:
    """(..., D) -> rescaled vectors and their lengths (..., 1), at least 1; in full precision."""
    x = upcast(x)
    # dividing by the largest component keeps the squares from overflowing or vanishing; the ratio does not
    # depend on the divisor, so it needs no gradient
    largest = x.detach().abs().amax(-1, keepdim=True) if x.shape[-1] else x.sum(-1, keepdim=True)
    scaled = x / torch.where(largest > 0, largest, 1.0)
    norm = scaled.square().sum(-1, keepdim=True).clamp_min(1.0).sqrt()  # only the zero vector is below 1
    return scaled, norm

"""Sparsemax: the Euclidean projection of the scores onto the simplex; most weights are exactly zero.

    sparsemax(z) = argmin_{p ∈ Δ} ‖p - z‖² = max(z - τ(z), 0)          (equation 1 and proposition 1)
    k(z) = max{k : 1 + k z_(k) > Σ_{j≤k} z_(j)},  τ(z) = (Σ_{j≤k(z)} z_(j) - 1) / k(z)

    paper    here
    z        scores, z_(j) the j-th largest
    k(z)     support
    τ(z)     threshold

Martins, Astudillo. From softmax to sparsemax: a sparse model of attention and multi-label classification.
2016. https://arxiv.org/abs/1602.02068
"""

import torch
from torch import Tensor

from regard.attention.normalizers.base import Normalizer
from regard.catalog import card


@card(
    "normalizer",
    "sparsemax",
    title="Sparsemax",
    authors="Martins, Astudillo",
    year=2016,
    link="https://arxiv.org/abs/1602.02068",
    sentence="The scores projected onto the simplex; most weights are exactly zero.",
)
class Sparsemax(Normalizer):
    """max(z - τ, 0), with τ such that a row sums to one."""

    def normalize(self, scores: Tensor) -> Tensor:
        z = scores - scores.amax(-1, keepdim=True).detach()  # large sums would lose the significant digits
        ordered = z.sort(-1, descending=True).values
        k = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
        sums = ordered.cumsum(-1)
        support = (1 + k * ordered > sums).sum(-1, keepdim=True).clamp_min(1)  # 0 if there is NaN
        threshold = (sums.gather(-1, support - 1) - 1) / support
        return (z - threshold).clamp_min(0)

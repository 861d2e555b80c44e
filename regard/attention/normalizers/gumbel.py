"""Gumbel-softmax: a sample of the softmax, relaxed so that it has a gradient.

    y = softmax((log π + g) / τ),  g_i = -log(-log u_i)                (equation 2)

    paper    here
    log π    scores (an additive constant does not matter)
    τ        temperature; towards 0 the weights become one-hot
    y        weights

At evaluation there is no noise: it is the softmax at the same temperature. With `hard` the weights are
one-hot (at evaluation, the most likely position), with the gradient of the relaxed ones.

Jang, Gu, Poole. Categorical reparameterization with Gumbel-softmax. 2016. https://arxiv.org/abs/1611.01144
"""

import torch
from torch import Tensor

from regard.attention.normalizers.base import Normalizer, StochasticNormalizer
from regard.attention.normalizers.hard import straight_through, with_gumbel_noise
from regard.attention.normalizers.softmax import Softmax
from regard.attention.parts import is_own
from regard.catalog import card
from regard.errors import check_finite


@card(
    "normalizer",
    "gumbel-softmax",
    title="Gumbel-softmax",
    authors="Jang, Gu, Poole",
    year=2016,
    link="https://arxiv.org/abs/1611.01144",
    sentence="A sample of the softmax, relaxed so that it has a gradient.",
)
class GumbelSoftmax(StochasticNormalizer):
    """softmax((e + Gumbel noise) / τ)."""

    def __init__(self, *, temperature: float = 1.0, hard: bool = False) -> None:
        super().__init__()
        check_finite("GumbelSoftmax", above=0, temperature=temperature)
        self.temperature, self.hard = temperature, hard
        self.one_hot = hard

    def normalize(self, scores: Tensor, generator: torch.Generator | None = None) -> Tensor:
        noisy = with_gumbel_noise(scores, generator) if self.training else scores
        noisy = noisy if self.temperature == 1.0 else noisy / self.temperature
        if not self.hard:
            return noisy.softmax(-1)
        return straight_through(noisy.argmax(-1, keepdim=True), noisy)

    def settled(self) -> Normalizer:
        drawn = self.training or self.hard or not is_own(self, GumbelSoftmax)
        return self if drawn else Softmax(temperature=self.temperature)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}, hard={self.hard}"

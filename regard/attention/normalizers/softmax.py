"""Softmax, with a temperature.

    α[t, s] = exp(e[t, s] / τ) / Σ_s' exp(e[t, s'] / τ)    (equation 6, where τ = 1)

    paper    here
    e_ij     scores
    α_ij     weights
             temperature τ: above 1 flatter, below 1 sharper

Bahdanau, Cho, Bengio. Neural machine translation by jointly learning to align and translate. 2014.
https://arxiv.org/abs/1409.0473
"""

from torch import Tensor

from regard.attention.normalizers.base import Normalizer
from regard.catalog import card
from regard.errors import check_finite


@card(
    "normalizer",
    "softmax",
    title="Softmax (soft attention)",
    authors="Bahdanau, Cho, Bengio",
    year=2014,
    link="https://arxiv.org/abs/1409.0473",
    sentence="Weights are exponentials of the scores, divided by their sum.",
)
class Softmax(Normalizer):
    """exp(e / τ), divided by its sum."""

    def __init__(self, *, temperature: float = 1.0) -> None:
        super().__init__()
        check_finite("Softmax", above=0, temperature=temperature)
        self.temperature = temperature

    def normalize(self, scores: Tensor) -> Tensor:
        return (scores if self.temperature == 1.0 else scores / self.temperature).softmax(-1)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}"

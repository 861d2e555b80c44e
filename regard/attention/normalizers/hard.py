"""Hard attention: one position is chosen. Argmax at evaluation; sampled, or straight-through, in training.

    s_t ~ Multinoulli({α_{t,i}}),  ẑ_t = Σ_i s_{t,i} a_i              (equations 8 and 9)

    paper    here
    α_t      softmax of the scores
    s_t      weights, one-hot
    a_i      values

A sample has no gradient: REINFORCE follows `result.log_probability`. Straight-through passes the gradient of
the softmax through the choice, biased but simple.

Xu, Ba, Kiros, Cho, Courville, Salakhutdinov, Zemel, Bengio. Show, attend and tell. 2015.
https://arxiv.org/abs/1502.03044
Bengio, Léonard, Courville. Estimating or propagating gradients through stochastic neurons. 2013.
https://arxiv.org/abs/1308.3432
"""

import torch
from torch import Tensor

from regard.attention.normalizers.base import StochasticNormalizer
from regard.catalog import card


class HardNormalizer(StochasticNormalizer):
    """One position is chosen: the likeliest at evaluation, a sampled one in training."""

    one_hot = True

    def choose(self, scores: Tensor, generator: torch.Generator | None) -> Tensor:
        """(..., T, S) -> one-hot (..., T, S)."""
        if self.training:
            # adding Gumbel noise and taking the largest is a sample of the softmax, without building it
            scores = scores + gumbel_noise(scores, generator)
        index = scores.argmax(-1, keepdim=True)
        return torch.zeros_like(scores).scatter(-1, index, 1.0)

    def log_probability(self, scores: Tensor, weights: Tensor) -> Tensor:
        """(..., T, S), one-hot (..., T, S) -> (..., T) log-probability of the choice; 0 for empty rows."""
        if scores.shape[-1] == 0:
            return scores.sum(-1)
        empty = torch.isneginf(scores).all(-1, keepdim=True)
        logs = scores.masked_fill(empty, 0.0).log_softmax(-1)
        chosen = logs.gather(-1, weights.argmax(-1, keepdim=True))
        return chosen.masked_fill(empty, 0.0).squeeze(-1)


@card(
    "normalizer",
    "hard",
    title="Hard attention",
    authors="Xu et al.",
    year=2015,
    link="https://arxiv.org/abs/1502.03044",
    sentence="One position is sampled in training and the likeliest is taken at evaluation.",
)
class Hard(HardNormalizer):
    """A sampled choice, without gradient to the scores."""

    differentiable = False

    def normalize(self, scores: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.choose(scores.detach(), generator)


@card(
    "normalizer",
    "straight-through",
    title="Straight-through hard attention",
    authors="Bengio, Léonard, Courville",
    year=2013,
    link="https://arxiv.org/abs/1308.3432",
    sentence="A sampled choice whose gradient is that of the softmax.",
)
class StraightThrough(HardNormalizer):
    """A sampled choice whose gradient is that of the softmax."""

    def normalize(self, scores: Tensor, generator: torch.Generator | None = None) -> Tensor:
        soft = scores.softmax(-1)
        return self.choose(scores.detach(), generator) + (soft - soft.detach())


def gumbel_noise(scores: Tensor, generator: torch.Generator | None) -> Tensor:
    """-log(-log u) for u uniform on (0, 1), of the shape of the scores."""
    uniform = torch.rand(scores.shape, dtype=scores.dtype, device=scores.device, generator=generator)
    tiny = torch.finfo(scores.dtype).tiny
    return -torch.log(-torch.log(uniform.clamp(tiny, 1 - torch.finfo(scores.dtype).eps)))

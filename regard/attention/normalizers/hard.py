"""Hard attention: one position is chosen, by argmax at evaluation, sampled or straight-through in training.

    s_t ~ Multinoulli({α_{t,i}}),  ẑ_t = Σ_i s_{t,i} a_i              (equations 8 and 9)

    paper    here
    α_t      softmax of the scores
    s_t      weights, one-hot
    a_i      values

A sample has no gradient: REINFORCE uses `result.log_probability`. Straight-through passes the gradient of the
softmax through the choice, which is biased but simple.

Xu, Ba, Kiros, Cho, Courville, Salakhutdinov, Zemel, Bengio. Show, attend and tell. 2015.
https://arxiv.org/abs/1502.03044
Bengio, Léonard, Courville. Estimating or propagating gradients through stochastic neurons. 2013.
https://arxiv.org/abs/1308.3432
"""

from typing import Any

import torch
from torch import Tensor

from regard.attention.normalizers.base import StochasticNormalizer
from regard.attention.numerics import is_transformed
from regard.catalog import card


class HardNormalizer(StochasticNormalizer):
    """Chooses one position: the most likely at evaluation, a sampled one in training."""

    one_hot = True

    def choose(self, scores: Tensor, generator: torch.Generator | None) -> Tensor:
        """(..., T, S) -> (..., T, 1) the chosen position of each row."""
        if self.training:
            # the argmax after adding Gumbel noise is a sample of the softmax, without building the softmax
            scores = with_gumbel_noise(scores, generator)
        return scores.argmax(-1, keepdim=True)

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
    """A sampled choice, with no gradient to the scores."""

    differentiable = False

    def normalize(self, scores: Tensor, generator: torch.Generator | None = None) -> Tensor:
        scores = scores.detach()
        return one_hot(self.choose(scores, generator), scores)


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
        return straight_through(self.choose(scores.detach(), generator), scores)


def one_hot(index: Tensor, scores: Tensor) -> Tensor:
    """(..., T, 1) -> 1 at these positions and 0 elsewhere, in the shape of the scores (..., T, S)."""
    return torch.zeros_like(scores).scatter_(-1, index, 1.0)


def straight_through(index: Tensor, scores: Tensor) -> Tensor:
    """`one_hot`, with the gradient of softmax(scores)."""
    if is_transformed() or torch.compiler.is_compiling():
        soft = scores.softmax(-1)
        return one_hot(index, scores.detach()) + (soft - soft.detach())
    return _StraightThrough.apply(scores, index)  # type: ignore[no-untyped-call]


class _StraightThrough(torch.autograd.Function):
    """The same, but computes the softmax only in the backward pass."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(scores)
        return one_hot(index, scores)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (scores,) = ctx.saved_tensors
        soft = scores.softmax(-1)
        return torch._softmax_backward_data(grad, soft, -1, soft.dtype), None


def with_gumbel_noise(scores: Tensor, generator: torch.Generator | None) -> Tensor:
    """The scores plus -log(-log u), for u uniform on (0, 1)."""
    noise = torch.rand(scores.shape, dtype=scores.dtype, device=scores.device, generator=generator)
    limits = torch.finfo(scores.dtype)
    return scores - noise.clamp_(limits.tiny, 1 - limits.eps).log_().neg_().log_()

"""What the loss of two passes must be: the textbook's formula, differentiated by autograd."""

import torch
from kernels.error_rule import assert_rule
from torch.nn import functional as F

N, V = 5, 13
WORDS = torch.tensor([3, 12, -100, 0, 7])


def scores_of(dtype=torch.float32, *, rows=N, size=V, scale=2.0):
    generator = torch.Generator().manual_seed(size)
    return (scale * torch.randn(2 * rows, size, generator=generator)).to(dtype)


def textbook(scores, words, smoothing, weight):
    """Two log-softmaxes and their divergence, in the precision of the scores or in float32."""
    scores = scores if scores.dtype == torch.float64 else scores.float()
    losses = F.cross_entropy(
        scores, words.repeat(2), ignore_index=-100, reduction="sum", label_smoothing=smoothing
    )
    first, second = scores.log_softmax(-1).chunk(2)
    apart = ((first.exp() - second.exp()) * (first - second)).sum(-1)
    return losses / 2 + weight / 4 * apart.masked_fill(words < 0, 0.0).sum()


def gradient_of(function, scores, factor=3.0):
    """The loss, and the gradient of so many times the loss."""
    scores = scores.detach().clone().requires_grad_()
    loss = function(scores)
    (factor * loss).backward()
    return loss.detach(), scores.grad


def check(function, scores, words, smoothing, weight):
    """`function(scores)` is the textbook's loss of them, gradient included, by the error rule."""

    def formula(scores):
        return gradient_of(lambda z: textbook(z, words, smoothing, weight), scores)

    found = gradient_of(function, scores)
    assert found[1].dtype == scores.dtype
    assert_rule((lambda: found, lambda: formula(scores), lambda: formula(scores.double())))

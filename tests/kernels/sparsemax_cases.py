"""What the tests of sparsemax share: rows of every kind, and errors measured against float64."""

import torch
from kernels.error_rule import assert_rule
from torch import Tensor

from regard import Sparsemax


def rows_of(S: int, device: str = "cpu") -> dict[str, Tensor]:
    """(5, 3, S) scores: spread, even, flat, equal, far apart, partly and wholly hidden."""
    z = torch.randn(5, 3, S, device=device)
    hidden = z.masked_fill(torch.rand(5, 3, S, device=device) < 0.5, -torch.inf)
    hidden[0, 1] = -torch.inf
    return {
        "spread": z,
        "even": z * 0.1,  # all within one of the largest, and of many not all in the support
        "flat": z * 1e-3,
        "sharp": z * 100,
        "equal": torch.full_like(z, 3.0),
        "far from zero": z + 1000,
        "hidden": hidden,
    }


def outcome(normalize, scores: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and the gradient of the scores."""
    scores = scores.detach().clone().requires_grad_()
    weights = normalize(scores)
    (of_scores,) = torch.autograd.grad(weights, scores, grad.to(weights.dtype))
    return weights.detach(), of_scores


def check(normalize, scores: Tensor, label: object) -> None:
    """By the error rule, beside the sorted reference."""
    grad = torch.randn_like(scores)
    ours, plain = (outcome(run, scores, grad) for run in (normalize, Sparsemax()))
    for own, other in zip(ours, plain, strict=True):
        assert (own.shape, own.dtype, own.device) == (other.shape, other.dtype, other.device)
    exact = outcome(Sparsemax(), scores.double(), grad.double())
    same = ((exact[0] > 0) == (ours[0] > 0)).all(-1, keepdim=True)  # but for weights that are rounding
    assert same.float().mean() > 0.8, label
    # where a weight is nothing but rounding it may be in the support or not, and the gradient jumps
    clear = same & ((exact[0] > 0) == (plain[0] > 0)).all(-1, keepdim=True)

    def formula():
        weights, slope = outcome(Sparsemax(), scores, grad)
        return weights, slope * clear

    assert_rule(
        (lambda: (ours[0], ours[1] * clear), formula, lambda: (exact[0], exact[1] * clear)), label=label
    )

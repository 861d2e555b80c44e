"""What the tests of sparsemax share: rows of every kind, and errors measured against float64."""

import torch
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
    """As exact as the sorted reference, both against float64; one rounding is free."""
    grad = torch.randn_like(scores)
    exact = outcome(Sparsemax(), scores.double(), grad.double())
    plain = outcome(Sparsemax(), scores, grad)
    ours = outcome(normalize, scores, grad)
    for own, other in zip(ours, plain, strict=True):
        assert (own.shape, own.dtype, own.device) == (other.shape, other.dtype, other.device)
        assert torch.isfinite(own).all(), label
    assert (ours[0] - exact[0]).norm() <= 2 * (plain[0] - exact[0]).norm() + 1e-7, label
    same = ((exact[0] > 0) == (ours[0] > 0)).all(-1, keepdim=True)  # but for weights that are rounding
    assert same.float().mean() > 0.8, label
    errors = [((x - exact[1]) * same).norm().item() for x in (ours[1], plain[1])]
    assert errors[0] <= 2 * errors[1] + 1e-6 * exact[1].norm().item(), (label, errors)

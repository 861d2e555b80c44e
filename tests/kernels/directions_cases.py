"""What the kernel of cosine's query must be: the score's own, differentiated by autograd, in float64."""

import torch

from regard import CosineScore
from regard.kernels.directions import directions


def outcomes(run, score, query, grad):
    query = query.detach().clone().requires_grad_()
    leaves = [query, *score.parameters()]
    out = run(score, query)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad.to(out.dtype))]


def check(shape, *, learnt, dtype, tolerance, device="cpu", bias=None, size=1.0):
    """Every outcome is off by no more than `tolerance` of its size, beside what rounding it loses."""
    torch.manual_seed(0)
    score = CosineScore(query=shape[-1]) if learnt else CosineScore(strength=3.0)
    if bias is not None:
        torch.nn.init.constant_(score.beta.bias, bias)
    score = score.to(device, dtype)
    query, grad = (torch.randn(*shape, device=device).to(dtype) for _ in range(2))
    query = query * size
    found = outcomes(directions, score, query, grad)
    exact = outcomes(CosineScore.directions, score.double(), query.double(), grad.double())
    # of a query of one number the gradient's parts cancel but for its strength's: β / ‖q‖ times a rounding
    parts = (grad.double() * exact[0]).norm(dim=-1) / query.double().norm(dim=-1).clamp_min(1e-300)
    free = [1e-6 * grad.double().norm() / max(size, 1.0) for _ in exact]
    free[1] = max(free[1], 1e-6 * parts.norm())
    for x, want, rounding in zip(found, exact, free, strict=True):
        assert x.dtype == dtype
        assert x.shape == want.shape
        error, most = (x.double() - want).norm(), want.norm()
        assert error <= tolerance * most + rounding, (error, most)

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
    # a query of one number has no gradient but through its strength: what cancels is rounded all the same
    lengths = [x.double().norm(dim=-1) for x in (grad, exact[0], query)]
    terms = lengths[0] * lengths[1] / lengths[2].clamp_min(1e-300)
    cancels = 1e-6 * max(terms.norm(), grad.double().norm() / max(size, 1.0))
    for x, want in zip(found, exact, strict=True):
        assert x.dtype == dtype
        assert x.shape == want.shape
        error, most = (x.double() - want).norm(), want.norm()
        assert error <= tolerance * most + cancels, (error, most)

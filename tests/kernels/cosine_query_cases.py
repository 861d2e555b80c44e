"""What the kernel of cosine's query must be: the score's own, differentiated by autograd, in float64."""

from copy import deepcopy

import torch
from kernels.error_rule import assert_rule
from seeds import offset_seed

from regard import CosineScore
from regard.kernels.product.cosine_query import COSINE_QUERY


def outcomes(run, score, query, grad):
    query = query.detach().clone().requires_grad_()
    leaves = [query, *score.parameters()]
    out = run(score, query)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad.to(out.dtype))]


def plain(score, query):
    return score.directions(query).to(query.dtype)


def check(shape, *, learnt, dtype, device="cpu", bias=None, size=1.0):
    """By the error rule, beside the score's own."""
    torch.manual_seed(offset_seed(0))
    score = CosineScore(query=shape[-1]) if learnt else CosineScore(strength=3.0)
    if bias is not None:
        torch.nn.init.constant_(score.beta.bias, bias)
    score = score.to(device, dtype)
    query, grad = (torch.randn(*shape, device=device).to(dtype) for _ in range(2))
    query = query * size
    found = outcomes(lambda *call: COSINE_QUERY.run(call), score, query, grad)
    assert all(x.dtype == dtype for x in found)
    exact = outcomes(plain, deepcopy(score).double(), query.double(), grad.double())

    def formula():
        return outcomes(plain, score, query, grad)

    assert_rule((lambda: found, formula, lambda: exact))

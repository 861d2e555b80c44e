"""What dropout, sum and layer norm in one must be: PyTorch's own, differentiated by autograd."""

import torch
from kernels.error_rule import assert_rule
from torch.nn import functional as F

from regard.kernels.training.residual import normalized_sum

EPS = 1e-5


def problem(rows, width, *, dtype=torch.float32, device="cpu"):
    """x in float32, change in `dtype`, weight, bias and an upstream gradient."""
    generator = torch.Generator().manual_seed(rows * width)
    x, change, upstream = (torch.randn(rows, width, generator=generator) for _ in range(3))
    weight, bias = (torch.randn(width, generator=generator) for _ in range(2))
    given = x + 0.3, change.to(dtype), 1 + 0.2 * weight, bias
    return [t.to(device) for t in given], upstream.to(dtype).to(device)


def gradients(function, given, upstream):
    given = [t.detach().clone().requires_grad_() for t in given]
    out = function(*given)
    out.backward(upstream.to(out.dtype))
    return [out.detach(), *(t.grad for t in given)]


def textbook(kept):
    """With each number of the change times `kept`."""

    def function(x, change, weight, bias):
        return F.layer_norm(x + change * kept, x.shape[-1:], weight, bias, EPS)

    return function


def find_kept(shape, dropout, *, device="cpu", dtype=torch.float32):
    """What the kernel multiplies a change with, where it is seeded as now; the generator stays as it is.

    What is dropped gets no gradient.
    """
    state = torch.get_rng_state(), torch.cuda.get_rng_state() if device == "cuda" else None
    given, upstream = problem(*shape, dtype=dtype, device=device)
    slopes = gradients(lambda *t: normalized_sum(*t, dropout=dropout, eps=EPS), given, upstream)
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1])
    return torch.where(slopes[2] != 0, 1 / (1 - dropout), 0.0)


def check(given, upstream, *, dropout, **where):
    """By the error rule, beside PyTorch's own."""
    kept = find_kept(given[0].shape, dropout, **where) if dropout else 1.0
    found = gradients(lambda *t: normalized_sum(*t, dropout=dropout, eps=EPS), given, upstream)
    assert [t.dtype for t in found] == [given[1].dtype, *(t.dtype for t in given)]

    def formula():
        def run(*t):
            return textbook(kept)(*t).to(given[1].dtype)

        return gradients(run, given, upstream)

    exact = gradients(textbook(kept), [t.double() for t in given], upstream.double())
    assert_rule((lambda: found, formula, lambda: exact))

"""The Triton kernels of bands by Triton's interpreter. test_local_kernel.py starts this file."""

import os
from dataclasses import replace

import pytest
import torch
from kernels.error_rule import assert_rule
from seeds import offset_seed

from regard import Attention, CosineScore, DotScore, LocalMonotonic, Mask
from regard.kernels.local import local_cuda

assert os.environ["TRITON_INTERPRET"] == "1"
pytestmark = pytest.mark.usefixtures("poisoned")


def outcomes(kernel, inputs, mask, window, direction, score=DotScore):
    """Context and gradients; of the Triton kernels where no other is named."""
    attention = Attention(score(), window=window, kernel="reference")
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    source = attention.prepare(leaves[1], leaves[2], mask)
    if kernel == "reference":
        context = attention(leaves[0], source).context
    else:
        context = local_cuda.run(attention._call(leaves[0], source, None, 0.0), 1.0)
    grads = torch.autograd.grad(context, leaves, direction.to(context.dtype))
    return [x.detach() for x in (context, *grads)]


def check(T, S, mask, window, *, dtype=torch.float32, lead=(2,), widths=(5, 3), score=DotScore):
    """By the error rule."""
    torch.manual_seed(offset_seed(0))
    D, Dv = widths
    inputs = [torch.randn(*lead, n, d).to(dtype) for n, d in ((T, D), (S, D), (S, Dv))]
    direction = torch.randn(*lead, T, Dv).to(dtype)
    wide = [x.double() for x in inputs]
    assert_rule(
        (
            lambda: outcomes("triton", inputs, mask, window, direction, score),
            lambda: outcomes("reference", inputs, mask, window, direction, score),
            lambda: outcomes("reference", wide, mask, window, direction.double(), score),
        )
    )


def facts(S, window):
    more = {
        "nothing more": Mask(),
        "lengths": Mask(lengths=torch.tensor([S, S // 2])),
        "a row of nothing": Mask(lengths=torch.tensor([0, S])),
        "causal": Mask(causal=True),
        "later": Mask(offset=30),
        "before": Mask(offset=-20),
        "all": Mask(causal=True, lengths=torch.tensor([S - 2, S // 3]), offset=2),
    }
    if window is not None:
        return more | {"a window": Mask(window=(3, 2))}
    return {name: replace(m, window=(5, 2), dense=None) for name, m in more.items()}


@pytest.mark.parametrize("window", [LocalMonotonic(half_width=4), None], ids=["local-m", "the mask's"])
@pytest.mark.parametrize("name", facts(8, LocalMonotonic(half_width=4)))
def test_a_band_with_every_fact(name, window):
    T, S = (40, 75) if window is None else (75, 40)
    masks = facts(S, window)
    if name in masks:
        check(T, S, masks[name], window)


@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 50), (33, 1), (100, 7)])
def test_every_size(T, S):
    check(T, S, None, LocalMonotonic(half_width=3))


def test_a_band_wider_than_tiles():
    check(50, 150, None, LocalMonotonic(half_width=50))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    check(70, 70, None, LocalMonotonic(half_width=4), dtype=dtype)


def test_heads_share_lengths_and_widths_differ():
    check(
        20,
        30,
        Mask(lengths=torch.tensor([30, 11])),
        LocalMonotonic(half_width=4),
        lead=(2, 3),
        widths=(20, 33),
    )


def test_directions_are_a_product_too():
    check(20, 30, None, LocalMonotonic(half_width=4), score=lambda: CosineScore(strength=3.0))


def test_a_query_that_sees_one_key_has_no_gradient():
    query, keys = torch.randn(1, 9, 5, requires_grad=True), torch.randn(1, 9, 5)
    attention = Attention(DotScore(), window=LocalMonotonic(half_width=0))
    context = local_cuda.run(attention._call(query, attention.prepare(keys), None, 0.0), 1.0)
    torch.testing.assert_close(context, keys, rtol=0, atol=0)
    (grad,) = torch.autograd.grad(context, query, torch.randn(1, 9, 5))
    assert (grad == 0).all()

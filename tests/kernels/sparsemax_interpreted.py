"""The Triton kernels by Triton's interpreter, on CPU tensors. test_sparsemax_kernel.py starts this file."""

import os

import pytest
import torch
from kernels.error_rule import assert_rule
from kernels.sparsemax_cases import check, rows_of
from seeds import offset_seed

from regard import Attention, DotScore, Sparsemax
from regard.kernels import tuning
from regard.kernels.additive import additive_launch
from regard.kernels.additive.additive_operands import Operands
from regard.kernels.sparsemax import sparsemax_cuda

assert os.environ["TRITON_INTERPRET"] == "1"


class Interpreted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores):
        weights = sparsemax_cuda.forward(scores)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, grad):
        return sparsemax_cuda.backward(grad, *ctx.saved_tensors)


@pytest.mark.parametrize("S", [1, 64, 65])  # 64 fill their block
def test_rows_of_every_kind(S):
    for label, scores in rows_of(S).items():
        check(Interpreted.apply, scores[:2], (S, label))


def test_rows_too_wide_are_sorted(monkeypatch):
    monkeypatch.setattr(sparsemax_cuda, "WIDEST", 8)
    for label, scores in rows_of(9).items():
        check(Interpreted.apply, scores[:2], label)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_products_are_as_exact_as_the_formula(dtype):
    torch.manual_seed(offset_seed(0))
    q, k, values, grad = (torch.randn(2, n, d).to(dtype) for n, d in ((5, 8), (20, 8), (20, 6), (5, 6)))
    hidden = torch.rand(2, 5, 20) < 0.3
    hidden[1, 2] = True  # a row that sees nothing
    context, weights = sparsemax_cuda.product(q, k, values, hidden, 0.7)
    found = (context, *sparsemax_cuda.product_backward(grad, q, k, values, weights, 0.7))
    assert all(x.dtype == dtype for x in found)
    attention = Attention(DotScore(0.7), normalizer=Sparsemax(), kernel="reference")

    def formula(dtype):
        leaves = [x.to(dtype).requires_grad_() for x in (q, k, values)]
        context = attention(leaves[0], attention.prepare(*leaves[1:], ~hidden)).context
        return context, *torch.autograd.grad(context, leaves, grad.to(dtype))

    assert_rule((lambda: found, lambda: formula(dtype), lambda: formula(torch.float64)))


@pytest.mark.parametrize("own", range(3))
def test_a_product_gives_only_the_gradients_that_are_needed(own):
    q, k, values, grad = (torch.randn(2, n, d) for n, d in ((5, 8), (20, 8), (20, 6), (5, 6)))
    given = (grad, q, k, values, sparsemax_cuda.product(q, k, values, None, 0.7)[1], 0.7)
    found = sparsemax_cuda.product_backward(*given, tuple(i == own for i in range(3)))
    assert [x is None for x in found] == [i != own for i in range(3)]
    assert torch.equal(found[own], sparsemax_cuda.product_backward(*given)[own])


@pytest.mark.parametrize(("N", "T"), [(2, 5), (1, 35)])
def test_additive_scores_of_many_queries(N, T, monkeypatch):
    """Two blocks of rows with the second: the gradients of keys and values are sums over them."""
    monkeypatch.setattr(tuning, "PAIRS", 32 * 9)
    torch.manual_seed(offset_seed(0))
    inputs = [torch.randn(N, T, 6), torch.randn(N, 9, 6), 4 * torch.randn(6), torch.randn(N, 9, 3)]
    grad, ends = torch.randn(N, T, 3), torch.tensor([7, 0])[:N]
    given = Operands(*inputs, ends)
    ours = [additive_launch.forward(given, additive_launch.SPARSEMAX)]
    ours += additive_launch.backward(grad, given, additive_launch.SPARSEMAX)
    hidden = torch.arange(9) >= ends[:, None, None]

    def plain(dtype):
        a, b, v, values = leaves = [x.to(dtype).requires_grad_() for x in inputs]
        scores = (torch.tanh(a[:, :, None] + b[:, None]) @ v).masked_fill(hidden, -1e9)
        context = Sparsemax()(scores).masked_fill(hidden, 0.0) @ values
        return [context, *torch.autograd.grad(context, leaves, grad.to(dtype))]

    assert_rule((lambda: ours, lambda: plain(torch.float32), lambda: plain(torch.float64)))


def test_strided_rows():
    scores = torch.randn(9, 6).mT
    assert torch.equal(sparsemax_cuda.forward(scores), sparsemax_cuda.forward(scores.contiguous()))

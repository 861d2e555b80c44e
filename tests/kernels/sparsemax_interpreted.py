"""The Triton kernels by Triton's interpreter, on CPU tensors. test_sparsemax_kernel.py starts this file."""

import os

import pytest
import torch
from kernels.sparsemax_cases import check, rows_of

from regard.kernels import sparsemax_cuda

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


def test_strided_rows():
    scores = torch.randn(9, 6).mT
    assert torch.equal(sparsemax_cuda.forward(scores), sparsemax_cuda.forward(scores.contiguous()))

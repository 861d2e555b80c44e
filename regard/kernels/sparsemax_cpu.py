"""Sparsemax of rows on a CPU without sorting them: sparsemax_cpu.cpp; sorted, if there is no compiler."""

import ctypes
from functools import cache

import torch
from torch import Tensor

from regard.attention.normalizers.sparsemax import Sparsemax
from regard.kernels.compiler import in_threads, library

SHARED = 2**16  # fewer numbers than this are not worth a second thread


def forward(scores: Tensor) -> Tensor:
    """(..., S) float32 -> weights; zeros for a row of -inf."""
    loops = compiled()
    if loops is None:
        return Sparsemax()(scores)
    scores = scores.contiguous()
    weights = torch.empty_like(scores)
    n = scores.shape[-1]

    def run(first: int, last: int) -> None:
        kept = torch.empty(n, dtype=torch.float32)
        loops.sparsemax_rows(*_at(first * n, scores, weights), *_at(0, kept), last - first, n)

    in_threads(run, scores.numel() // n, worth=scores.numel() >= SHARED)
    return weights


def backward(grad: Tensor, weights: Tensor) -> Tensor:
    """The gradient of the scores, from the weights."""
    loops = compiled()
    if loops is None:
        return plain_gradient(grad, weights)
    grad, weights = grad.contiguous(), weights.contiguous()
    out = torch.empty_like(grad)
    n = grad.shape[-1]

    def run(first: int, last: int) -> None:
        loops.sparsemax_gradient(*_at(first * n, weights, grad, out), last - first, n)

    in_threads(run, grad.numel() // n, worth=grad.numel() >= SHARED)
    return out


def plain_gradient(grad: Tensor, weights: Tensor) -> Tensor:
    """The same in tensors."""
    inside = weights != 0
    count = inside.sum(-1, keepdim=True).clamp_min(1)
    mean = (grad * inside).sum(-1, keepdim=True) / count
    return torch.where(inside, grad - mean, 0.0)


def _at(offset: int, *tensors: Tensor) -> tuple[ctypes.c_void_p, ...]:
    return tuple(ctypes.c_void_p(x.data_ptr() + 4 * offset) for x in tensors)


@cache
def compiled() -> ctypes.CDLL | None:
    """The compiled loops; None without a compiler."""
    loops = library("sparsemax_cpu.cpp", "sparsemax sorts its rows, several times slower than compiled")
    if loops is not None:
        pointer, size = ctypes.c_void_p, ctypes.c_long
        loops.sparsemax_rows.argtypes = [pointer] * 3 + [size] * 2
        loops.sparsemax_gradient.argtypes = [pointer] * 3 + [size] * 2
        loops.sparsemax_rows.restype = loops.sparsemax_gradient.restype = None
    return loops

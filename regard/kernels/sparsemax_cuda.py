"""Sparsemax of rows on an NVIDIA GPU: what is launched. Rows too wide for registers are sorted."""

import torch
from torch import Tensor

from regard.attention.normalizers.sparsemax import Sparsemax
from regard.kernels.launching import launch
from regard.kernels.sparsemax_cpu import plain_gradient

WIDEST = 2**15  # numbers of a row that fit the registers of one program


def forward(scores: Tensor) -> Tensor:
    """(..., S) float32 -> weights; zeros for a row of -inf."""
    from regard.kernels import sparsemax_triton

    S = scores.shape[-1]
    if S > WIDEST:
        return Sparsemax()(scores)
    scores = scores.contiguous()
    weights = torch.empty_like(scores)
    block = _power(S)
    grid, kernel = (scores.numel() // S, 1, 1), sparsemax_triton.forward_kernel
    launch(kernel, grid, (scores,), (weights,), (S,), (), (block,), warps=_warps(block))
    return weights


def backward(grad: Tensor, weights: Tensor) -> Tensor:
    """The gradient of the scores, from the weights."""
    from regard.kernels import sparsemax_triton

    S = grad.shape[-1]
    if S > WIDEST:
        return plain_gradient(grad, weights)
    grad, weights = grad.contiguous(), weights.contiguous()
    out = torch.empty_like(grad)
    block = _power(S)
    grid, kernel = (grad.numel() // S, 1, 1), sparsemax_triton.gradient_kernel
    launch(kernel, grid, (grad, weights), (out,), (S,), (), (block,), warps=_warps(block))
    return out


def _power(S: int) -> int:
    return max(16, 1 << (S - 1).bit_length())


def _warps(block: int) -> int:
    """At most 32 numbers to a thread, if there are threads enough."""
    return min(32, max(1, block // 1024) * (1 if block <= 1024 else 2))

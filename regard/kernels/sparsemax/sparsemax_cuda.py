"""Sparsemax of rows, and of products, on an NVIDIA GPU: the launches.

Rows too wide for registers are sorted.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.attention.normalizers.sparsemax import Sparsemax
from regard.kernels import tuning
from regard.kernels.launching import launch
from regard.kernels.product.product_rows import full_product
from regard.kernels.sparsemax.sparsemax_cpu import plain_gradient

KEPT = PAIRS = tuning.PAIRS  # up to so many weights are saved for the backward pass; more are recomputed
WIDEST = 2**15  # elements of a row that fit into the registers of one program


def forward(scores: Tensor, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
    """(..., S) float32 -> weights of scale · scores in `dtype`; zeros for a row of -inf."""
    S = scores.shape[-1]
    if S > WIDEST:
        return Sparsemax()(scores if scale == 1.0 else scores * scale).to(dtype)
    scores = scores.contiguous()
    weights = torch.empty_like(scores, dtype=dtype)
    write_weights(scores, weights, scale)
    return weights


def write_weights(scores: Tensor, weights: Tensor, scale: float = 1.0) -> None:
    """The weights of contiguous rows of at most WIDEST; `weights` may be `scores` itself."""
    from regard.kernels.sparsemax import sparsemax_triton

    _launch(sparsemax_triton.forward_kernel, (scores,), weights, scale)


def backward(grad: Tensor, weights: Tensor, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
    """The gradient of the scores in `dtype`, from that of the weights (float32) and the weights."""
    S = grad.shape[-1]
    if S > WIDEST:
        return (plain_gradient(grad, weights) * scale).to(dtype)
    grad, weights = grad.contiguous(), weights.contiguous()
    out = torch.empty_like(grad, dtype=dtype)
    write_slopes(grad, weights, out, scale)
    return out


def write_slopes(grad: Tensor, weights: Tensor, out: Tensor, scale: float = 1.0) -> None:
    """The gradient of contiguous rows of at most WIDEST; `out` may be `grad` itself."""
    from regard.kernels.sparsemax import sparsemax_triton

    _launch(sparsemax_triton.gradient_kernel, (grad, weights), out, scale)


def _launch(kernel: Any, given: tuple[Tensor, ...], out: Tensor, scale: float) -> None:
    """One program per row, with at most 32 elements per thread if there are enough threads."""
    S = out.shape[-1]
    block = max(16, tuning.power_of_two(S))
    warps = min(32, max(1, block // 1024) * (1 if block <= 1024 else 2))
    launch(kernel, (out.numel() // S, 1, 1), given, (out,), (S,), (scale,), (block,), warps=warps)


def product(
    q: Tensor, k: Tensor, values: Tensor, hidden: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """The context (N, T, Dv) and the weights (N, T, S), all in one dtype."""
    weights = weigh(q, k, values, hidden, scale)
    return torch.bmm(weights, values), weights


def weigh(q: Tensor, k: Tensor, values: Tensor, hidden: Tensor | None, scale: float) -> Tensor:
    """The weights (N, T, S) in the dtype of the values, from scores in float32.

    Half-precision queries and keys are not upcast, since their products are exact in float32; weights are
    rounded before they multiply the values, as in fused attention.
    """
    scores = full_product(q, k.mT)
    scores = scores if hidden is None else scores.masked_fill_(hidden, -torch.inf)
    return forward(scores, values.dtype, scale)


def product_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    values: Tensor,
    weights: Tensor,
    scale: float,
    needed: tuple[bool, ...] = (True, True, True),
    multiplied: Callable[[Tensor, Tensor], Tensor] = torch.bmm,
) -> tuple[Any, Any, Any]:
    """Gradients of q, k and the values, with the matrix product `multiplied`; None where not needed."""
    of_q = of_k = None
    if needed[0] or needed[1]:
        slopes = backward(full_product(grad, values.mT), weights, k.dtype, scale)
        of_q = multiplied(slopes, k) if needed[0] else None
        of_k = multiplied(slopes.mT, q) if needed[1] else None
    return of_q, of_k, multiplied(weights.mT, grad) if needed[2] else None

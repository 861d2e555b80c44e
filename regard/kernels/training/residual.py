"""The end of a post-norm Transformer's sub-layer in training, in one kernel forward and two backward.

    z = x + m ∘ c / (1 - p)                     m is 1 with probability 1 - p, else 0
    y = (z - μ) / σ · g + b                     μ, σ² mean and variance of z over its features

    ẑ = (z - μ) / σ        h = g ∘ dy           means below are over the features
    dx = (h - mean(h) - ẑ mean(h ∘ ẑ)) / σ      dc = m ∘ dx / (1 - p)
    dg = Σ dy ∘ ẑ          db = Σ dy            over all positions

    formula   here         shape
    x c y     x, change    (..., D)
    g b       weight, bias (D,)
    p         dropout

PyTorch makes five passes over memory forward and more backward, half of them in float32, and saves masks and
sums. Here everything between reading x and c and writing y stays in registers, in float32; y has the dtype of
c. Only x and c are saved for the backward pass: m is a hash (Wellons's lowbias32 twice) of the position and
of a seed from the device's generator, so it can be recomputed.
"""
# mypy: disable-error-code="no-untyped-call"

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.numerics import HALF
from regard.errors import KernelRefused
from regard.kernels.compiler import triton_missing
from regard.kernels.tuning import power_of_two

WIDEST = 4096  # features that a program holds
PROGRAMS = 1024  # of the backward pass, each with its own sums for g and b


class Closing(NamedTuple):
    """The end of a sub-layer: dropout, residual sum and layer norm."""

    x: Tensor
    change: Tensor
    norm: nn.Module
    dropout: nn.Module
    plain: bool  # norm and dropout compute the formula above


class ResidualNorm:
    """Dropout, sum and layer norm in one kernel."""

    name = "residual-norm-cuda"

    def refuses(self, call: Closing) -> str | None:
        x, change = call.x, call.change
        if not change.is_cuda or change.dtype not in HALF:
            return f"it is {change.dtype} on {change.device.type}, this kernel is for half precision on cuda"
        if torch.compiler.is_compiling():
            return "the graph is being compiled"
        if not call.norm.training:
            return "the norm is not in training mode"
        if x.shape != change.shape or x.shape[-1] > WIDEST:
            return f"shapes differ, or have more than {WIDEST} features"
        if not call.plain:
            return "the norm or the dropout is of another class, or has hooks"
        return triton_missing()

    def run(self, call: Closing) -> Tensor:
        norm: Any = call.norm
        dropout: Any = call.dropout
        return normalized_sum(call.x, call.change, norm.weight, norm.bias, dropout=dropout.p, eps=norm.eps)


RESIDUAL_NORM = ResidualNorm()


def normalized_sum(
    x: Tensor, change: Tensor, weight: Tensor, bias: Tensor, *, dropout: float, eps: float
) -> Tensor:
    """(..., D) twice, (D,) twice -> y (..., D) as above, in the dtype of `change`."""
    most = 2**31
    seed = torch.randint(-most, most, (2,), dtype=torch.int32, device=x.device) if dropout else None
    return _NormalizedSum.apply(x, change, weight, bias, seed, dropout, eps)


class _NormalizedSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        change: Tensor,
        weight: Tensor,
        bias: Tensor,
        seed: Tensor | None,
        dropout: float,
        eps: float,
    ) -> Tensor:
        from regard.kernels.training import residual_triton

        x, change = x.contiguous(), change.contiguous()
        out = torch.empty_like(change)
        rows, block, warps = _sizes(x)
        if rows:
            residual_triton.forward_kernel[(rows,)](
                *(x, change, weight, bias, change if seed is None else seed, out, x.shape[-1]),
                *(float(dropout), float(eps), seed is not None, block),
                num_warps=warps,
            )
        ctx.save_for_backward(x, change, weight, seed)
        ctx.dropout, ctx.eps = dropout, eps
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from regard.kernels.training import residual_triton

        if torch.is_grad_enabled():  # create_graph=True
            raise KernelRefused("a fused residual has no second derivative; expected one backward pass.")
        x, change, weight, seed = ctx.saved_tensors
        of_x, of_change = torch.empty_like(x), torch.empty_like(change)
        rows, block, warps = _sizes(x)
        each = max(1, -(-rows // PROGRAMS))
        programs = -(-rows // each)
        sums = x.new_empty(2, programs, x.shape[-1], dtype=torch.float32)  # of g and b, for each program
        if rows:
            residual_triton.gradient_kernel[(programs,)](
                *(x, change, weight, change if seed is None else seed, grad.contiguous()),
                *(of_x, of_change, sums, rows, x.shape[-1], each),
                *(float(ctx.dropout), float(ctx.eps), seed is not None, block),
                num_warps=warps,
            )
        of_weight, of_bias = sums.sum(1).to(weight.dtype)
        return of_x, of_change, of_weight, of_bias, None, None, None


def _sizes(x: Tensor) -> tuple[int, int, int]:
    """Rows, the power of two that holds the features, and warps for eight elements per thread."""
    width = x.shape[-1]
    block = max(16, power_of_two(width))
    return x.numel() // width, block, max(1, min(8, block // 256))

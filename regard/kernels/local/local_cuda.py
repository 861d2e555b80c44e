"""Attention inside a band on a GPU: what local_triton.py computes, one launch forward and two backward.

For scores that are products, with what a query sees known from numbers: local-m and the mask's own window.
The predicted centres of local-p, additive scores and compiled graphs stay with the slices of local.py.
"""
# mypy: disable-error-code="no-untyped-call"

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.dispatch import Call
from regard.attention.forms import Product
from regard.attention.windows.local_monotonic import LocalMonotonic
from regard.attention.windows.local_predictive import LocalPredictive
from regard.kernels.additive.additive_launch import has_assembler
from regard.kernels.compiler import triton_missing
from regard.kernels.launching import launch
from regard.kernels.product.products import half_product
from regard.kernels.shapes import flat, leading
from regard.kernels.tuning import power_of_two

WIDEST = 256  # features of keys or values that a program holds


def takes(call: Call) -> bool:
    """Whether these kernels run a call that is a band."""
    widest = max(call.source.keys.shape[-1], call.source.values.shape[-1])
    return (
        call.query.is_cuda
        and call.form_type is Product
        and not isinstance(call.window, LocalPredictive)
        and call.source.keys.dtype is call.source.values.dtype
        and 0 not in (call.query.shape[-2], call.source.S)
        and widest <= WIDEST
        and not torch.compiler.is_compiling()
        and triton_missing() is None
    )


def run(call: Call, temperature: float) -> Tensor:
    """The context, (..., T, Dv)."""
    query, keys, scale = half_product(call)
    values, mask = call.source.values, call.source.mask
    lead = leading(query, keys, values)
    left, right = mask.window if mask.window is not None else (None, None)
    right = 0 if mask.causal else right
    half = call.window.half_width if isinstance(call.window, LocalMonotonic) else None
    lengths = None if mask.lengths is None else mask.lengths.to(query.device).contiguous()
    facts = (lengths, mask.offset, left, right, half, scale / temperature)
    context = Band.apply(*(flat(x, lead).contiguous() for x in (query, keys, values)), facts)
    return context.reshape(*lead, *context.shape[-2:])


class Band(torch.autograd.Function):
    """softmax(scale q kᵀ) values for (N, T, D), (N, S, D), (N, S, Dv), each row inside its band.

    `facts` are lengths (M,), M dividing N, or None; offset; left, right and half width, or None; scale.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, values: Tensor, facts: tuple[Any, ...]) -> Tensor:
        from regard.kernels.local.local_triton import forward_kernel

        N, T = q.shape[:2]
        out = values.new_empty(N, T, values.shape[-1])
        stats = q.new_empty(3, N, T, dtype=torch.float32)
        given, numbers, constants, tile, warps = _arguments(q, k, values, facts)
        grid = (-(-T // tile), N, 1)
        launch(forward_kernel, grid, given, (out, stats), (), numbers, constants, warps=warps)
        ctx.save_for_backward(q, k, values, stats)
        ctx.facts = facts
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from regard.kernels.local.local_triton import key_kernel, query_kernel

        q, k, values, stats = ctx.saved_tensors
        (N, T), S = q.shape[:2], k.shape[1]
        given, numbers, constants, tile, warps = _arguments(q, k, values, ctx.facts)
        given = (*given, grad.contiguous())
        of_q, of_k, of_values = (x.new_empty(x.shape) for x in (q, k, values))
        grid = (-(-T // tile), N, 1)
        launch(query_kernel, grid, given, (stats, of_q), (), numbers, constants, warps=warps)
        grid = (-(-S // tile), N, 1)
        launch(key_kernel, grid, given, (stats, of_k, of_values), (), numbers, constants, warps=warps)
        return of_q, of_k, of_values, None


def _tile(size: int, width: int) -> tuple[int, int]:
    """Queries and keys to a tile, and its warps, for numbers of so many bytes and rows of so many numbers.

    Without matrix units, as in float32, each product of a tile is written out: larger ones would not fit.
    """
    if size == 2:
        return (64, 4) if width <= 64 else (64, 8) if width <= 128 else (32, 8)
    return (32, 4) if width <= 32 else (32, 8) if width <= 64 else (16, 8)


def _arguments(
    q: Tensor, k: Tensor, values: Tensor, facts: tuple[Any, ...]
) -> tuple[tuple[Tensor, ...], tuple[float, ...], tuple[int, ...], int, int]:
    """What all three kernels take: tensors, numbers and constants; the size of a tile, and its warps."""
    lengths, offset, left, right, half, scale = facts
    N, T, D = q.shape
    S, Dv = values.shape[1:]
    share = 1 if lengths is None else N // lengths.shape[0]
    BD, BV = (max(16, power_of_two(width)) for width in (D, Dv))
    tile, warps = _tile(q.element_size(), max(BD, BV))
    return (
        (q, k, values, q if lengths is None else lengths),
        (N, T, S, share, offset, left or 0, right or 0, half or 0, float(scale)),
        (
            *(D, Dv, lengths is not None, left is not None, right is not None, half is not None),
            *(tile, tile, BD, BV, has_assembler(q)),
        ),
        tile,
        warps,
    )

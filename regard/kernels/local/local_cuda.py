"""Attention inside a band on a GPU: launches local_triton.py, once forward and twice backward.

For product scores with bands that follow from a few numbers: local-m and the mask's own window. Predicted
centres and additive scores are for local_rows_cuda.py.
"""
# mypy: disable-error-code="no-untyped-call"

from typing import Any, NamedTuple

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
from regard.kernels.shapes import fits_launch, flat, leading
from regard.kernels.tuning import power_of_two

WIDEST = 256  # features of keys or values that a program holds


class Facts(NamedTuple):
    """The band of every query, as a few numbers."""

    lengths: Tensor | None  # (M,), M divides N
    offset: int
    left: int | None
    right: int | None
    half: int | None  # the half width of a window
    scale: float  # multiplies the scores

    @property
    def flags(self) -> tuple[bool, ...]:
        """Which of lengths, left, right and half width are present."""
        return tuple(x is not None for x in (self.lengths, *self[2:5]))

    def numbers(self, q: Tensor, k: Tensor) -> tuple[float, ...]:
        """N, T, S, the number of items that share a length, and these facts; 0 for absent ones."""
        (N, T), S = q.shape[:2], k.shape[1]
        share = 1 if self.lengths is None else N // self.lengths.shape[0]
        return (N, T, S, share, self.offset, *(x or 0 for x in self[2:5]), float(self.scale))


def takes(call: Call) -> bool:
    """Whether these kernels run the call, given that it has a band."""
    widest = max(call.source.keys.shape[-1], call.source.values.shape[-1])
    return (
        call.query.is_cuda
        and call.form_type is Product
        and not isinstance(call.window, LocalPredictive)
        and call.source.keys.dtype is call.source.values.dtype
        and 0 not in (call.query.shape[-2], call.source.S)
        and widest <= WIDEST
        and not torch.compiler.is_compiling()
        and fits_launch(call.query, call.source.keys, call.source.values)
        and triton_missing() is None
    )


def run(call: Call, temperature: float) -> Tensor:
    """The context, (..., T, Dv)."""
    query, keys, scale = half_product(call)
    values = call.source.values
    lead = leading(query, keys, values)
    facts = facts_of(call, scale / temperature)
    context = Band.apply(*(flat(x, lead).contiguous() for x in (query, keys, values)), facts)
    return context.reshape(*lead, *context.shape[-2:])


def facts_of(call: Call, scale: float) -> Facts:
    """The facts of a call's mask and window."""
    mask, window = call.source.mask, call.window
    left, right = mask.window if mask.window is not None else (None, None)
    right = 0 if mask.causal else right
    half = window.half_width if isinstance(window, LocalMonotonic | LocalPredictive) else None
    lengths = None if mask.lengths is None else mask.lengths.to(call.query.device).contiguous()
    return Facts(lengths, mask.offset, left, right, half, scale)


class Band(torch.autograd.Function):
    """softmax(scale q kᵀ) values for (N, T, D), (N, S, D), (N, S, Dv), each row inside its band."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, values: Tensor, facts: Facts) -> Tensor:
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
    """Queries (and keys) per tile, and warps, for elements of `size` bytes and rows of `width` elements.

    Without tensor cores, as in float32, a tile's products are unrolled, so larger tiles would not fit.
    """
    if size == 2:
        return (64, 4) if width <= 64 else (64, 8) if width <= 128 else (32, 8)
    return (32, 4) if width <= 32 else (32, 8) if width <= 64 else (16, 8)


def _arguments(
    q: Tensor, k: Tensor, values: Tensor, facts: Facts
) -> tuple[tuple[Tensor, ...], tuple[float, ...], tuple[int, ...], int, int]:
    """Arguments of all three kernels: tensors, numbers and constants; the size of a tile, and its warps."""
    D, Dv = q.shape[-1], values.shape[-1]
    BD, BV = (max(16, power_of_two(width)) for width in (D, Dv))
    tile, warps = _tile(q.element_size(), max(BD, BV))
    return (
        (q, k, values, q if facts.lengths is None else facts.lengths),
        facts.numbers(q, k),
        (D, Dv, *facts.flags, tile, tile, BD, BV, has_assembler(q)),
        tile,
        warps,
    )

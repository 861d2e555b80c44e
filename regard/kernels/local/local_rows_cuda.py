"""Attention with a separate band for each row, on a GPU: launches local_rows_triton.py.

One launch forward; two backward, with a sort in between by which keys find their rows.
"""
# mypy: disable-error-code="no-untyped-call"

from typing import Any

import torch
from torch import Tensor

from regard.kernels.additive.additive_launch import has_assembler
from regard.kernels.launching import launch
from regard.kernels.local.local_cuda import Facts
from regard.kernels.ops import once
from regard.kernels.tuning import power_of_two

WIDEST = 1024  # positions of a band that a program holds
TILE = 4096  # elements of a tile


class Rows(torch.autograd.Function):
    """The context for (N, T, D), (N, S, D), (N, S, Dv), each row in its band of at most `width` positions.

    v (D,) makes the score additive; p (N, T) are predicted centres; either may be None.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        values: Tensor,
        v: Tensor | None,
        p: Tensor | None,
        facts: Facts,
        width: int,
    ) -> Tensor:
        from regard.kernels.local.local_rows_triton import forward_kernel

        q, k, values = (x.contiguous() for x in (q, k, values))
        p = None if p is None else p.contiguous()
        out = values.new_empty(*q.shape[:2], values.shape[-1])
        grid, given, numbers, constants = _arguments(q, k, values, v, p, facts, width)
        launch(forward_kernel, grid, given, (out,), (), numbers, constants)
        ctx.save_for_backward(q, k, values, v, p, facts.lengths)
        ctx.rest = facts, width
        return out

    @staticmethod
    @once
    def backward(ctx: Any, saved: tuple[Any, ...], grad: Tensor) -> tuple[Tensor | None, ...]:
        from regard.kernels.local.local_rows_triton import key_kernel, row_kernel

        q, k, values, v, p, _ = saved
        facts, width = ctx.rest
        grid, given, numbers, constants = _arguments(q, k, values, v, p, facts, width)
        (N, T, D), (S, DV), grad = q.shape, values.shape[1:], grad.contiguous()
        BW = constants[-3]
        of_q, of_k, of_values = (x.new_empty(x.shape) for x in (q, k, values))
        of_p, kept = (q.new_empty(size, dtype=torch.float32) for size in ((N, T), (N, T, 2, BW)))
        parts = q.new_empty(N * grid[0], D, dtype=torch.float32) if v is not None else of_p
        starts = q.new_empty(N, T, dtype=torch.int32)
        made = (of_q, of_p, kept, parts, starts)
        launch(row_kernel, grid, (*given, grad), made, (), numbers, constants)
        starts, order = starts.sort(stable=True)
        places = torch.arange(1 - width, S + 1, dtype=torch.int32, device=q.device)
        edges = torch.searchsorted(starts, places.expand(N, -1).contiguous())
        BD = min(128, max(16, power_of_two(max(D, DV))))
        launch(
            *(key_kernel, (S, -(-D // BD) + -(-DV // BD), N)),
            *((q, k, given[3], grad, kept, starts, order, edges), (of_k, of_values), ()),
            *((T, S, width), (D, DV, v is not None, 16, BW, BD, has_assembler(q))),
            warps=2,
        )
        of_v = None if v is None else parts.sum(0).to(v.dtype)
        return of_q, of_k, of_values, of_v, None if p is None else of_p, None, None


def _arguments(
    q: Tensor, k: Tensor, values: Tensor, v: Tensor | None, p: Tensor | None, facts: Facts, width: int
) -> tuple[tuple[int, int, int], tuple[Tensor, ...], tuple[float, ...], tuple[int, ...]]:
    """The grid of the row kernels, and their tensors, numbers and constants."""
    (N, T, D), DV = q.shape, values.shape[-1]
    BW = max(16, power_of_two(width))
    BD = min(64, max(4, TILE // BW), max(16, power_of_two(max(D, DV))))
    BT = max(1, min(4, TILE // (BW * BD)))
    given = (q, k, values, *(q if x is None else x for x in (v, p, facts.lengths)))
    constants = (D, DV, *facts.flags, v is not None, p is not None, BT, BW, BD, has_assembler(q))
    return (-(-T // BT), N, 1), given, facts.numbers(q, k), constants

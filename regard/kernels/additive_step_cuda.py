"""Additive attention for few queries at a time on a GPU: decoders that take one step after another.

Each key meets each feature of at most four queries, so reading keys and values is the work, and for small
sources not even that: the time goes into launching. So a step is one launch forward (two where the source is
long) and two backward; and outside of a compiled graph it goes to autograd without the operator between, and
to kernels that Triton has compiled without asking Triton again.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels import tuning
from regard.kernels.additive_cuda import has_assembler, mask_facts, side_by_side
from regard.kernels.launching import launch

Needed = tuple[bool, bool, bool, bool]  # which of a, b, v and values want their gradient
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def step(a: Tensor, b: Tensor, v: Tensor, values: Tensor, *facts: Any) -> Tensor:
    """The context, (N, T, Dv), with its gradient."""
    if torch.is_grad_enabled():
        return Step.apply(a, b, v, values, *facts)  # type: ignore[no-untyped-call]
    return forward(a, b, v, values, *facts)[0]


class Step(torch.autograd.Function):
    """`forward` and `backward` below, as autograd takes them. The arguments are explained in additive.py."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, v: Tensor, values: Tensor, *facts: Any) -> Tensor:
        context, kept = forward(a, b, v, values, *facts)
        ctx.save_for_backward(kept, a, b, v, values)
        ctx.scale = facts[-1]
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        kept, a, b, v, values = ctx.saved_tensors
        gradients = backward(grad, kept, a, b, v, values, ctx.scale, ctx.needs_input_grad[:4])
        return (*gradients, None, None, None, None, None, None)


def forward(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    values: Tensor,
    lengths: Tensor | None,
    dense: Tensor | None,
    left: int | None,
    right: int | None,
    offset: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Context (N, T, Dv), and what is kept: weights and unrounded context in float32, (N, T, S + Dv)."""
    from regard.kernels.additive_triton.step import join_kernel, step_kernel

    N, T, D = a.shape
    S, Dv = values.shape[1:]
    a, b, v, values = a.contiguous(), side_by_side(b), v.contiguous(), side_by_side(values)
    arguments, flags = mask_facts(N, a, lengths, dense, left, right, offset)
    context = values.new_empty(N, T, Dv)
    kept = a.new_empty(N, T, S + Dv, dtype=torch.float32)
    BS, BD, warps = tuning.step_blocks(N * T, S)
    blocks = -(-S // BS)
    parts = kept if blocks == 1 else a.new_empty(N * T * blocks * (Dv + 2), dtype=torch.float32)
    launch(
        *(step_kernel, (blocks, T, N), (a, b, v, values, *arguments[:2]), (context, kept, parts)),
        (T, S, *b.stride()[:2], *values.stride()[:2], *arguments[2:7]),
        (*arguments[7:], scale),
        (*flags, D, Dv, BS, BD, blocks == 1, has_assembler(a)),
        warps=warps,
    )
    if blocks > 1:
        constants = (Dv, tuning.power_of_two(blocks), BS, 64, 256)
        grid = (-(-Dv // 64), N * T, 1)
        launch(join_kernel, grid, (), (context, kept, parts), (S, blocks), (), constants)
    return context, kept


def backward(
    grad: Tensor,
    kept: Tensor,
    a: Tensor,
    b: Tensor,
    v: Tensor,
    values: Tensor,
    scale: float,
    needed: Needed,
) -> Gradients:
    """Gradients of a, b, v and values, None where not needed. The mask is in the weights already."""
    from regard.kernels.additive_triton.step import step_gradient_kernel, sum_kernel

    N, T, D = a.shape
    S, Dv = values.shape[1:]
    a, b, v, values = a.contiguous(), side_by_side(b), v.contiguous(), side_by_side(values)
    BS, BD = tuning.step_gradient_blocks(N * T, S)
    blocks = -(-S // BS)
    grad_a, grad_v = a.new_empty(N, T, D), v.new_empty(D)
    grad_b = _space(T, b, (N, S, D)) if needed[1] else kept
    grad_values = _space(T, values, (N, S, Dv)) if needed[3] else kept
    parts = a.new_empty(blocks * N * T * 2 * D, dtype=torch.float32)
    launch(
        *(step_gradient_kernel, (blocks, T, N), (grad.contiguous(), kept, a, b, v, values)),
        (grad_b, grad_values, parts),
        (N, T, S, *b.stride()[:2], *values.stride()[:2]),
        (scale,),
        (D, Dv, BS, BD, needed[1], needed[3], has_assembler(a)),
    )
    grid = (-(-D // 32), N * T + 1, 1)
    launch(sum_kernel, grid, (), (parts, grad_a, grad_v), (blocks, N * T), (), (D, 128, 32))
    return (
        grad_a if needed[0] else None,
        (grad_b[0] if T == 1 else grad_b.sum(0).to(b.dtype)) if needed[1] else None,
        grad_v if needed[2] else None,
        (grad_values[0] if T == 1 else grad_values.sum(0).to(values.dtype)) if needed[3] else None,
    )


def _space(T: int, like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Room for the gradient that each query gives; several are added up in float32."""
    return like.new_empty(T, *shape, dtype=like.dtype if T == 1 else torch.float32)

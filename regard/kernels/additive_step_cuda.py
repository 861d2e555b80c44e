"""Additive attention for few queries at a time on a GPU: decoders that take one step after another.

Each key meets each feature of at most four queries, so reading keys and values is the work, and for small
sources not even that: the time goes into launching. So a step is two launches forward and two or three
backward; and outside of a compiled graph it goes to autograd without the operator between, and to kernels
that Triton has compiled without asking Triton again.
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
    """Context (N, T, Dv), and what is kept: (N, T, S + 2 + Dv) in float32, see additive_triton/step.py."""
    from regard.kernels.additive_triton.step import mix_step_kernel, score_step_kernel

    N, T, D = a.shape
    S, Dv = values.shape[1:]
    a, b, v, values = a.contiguous(), side_by_side(b), v.contiguous(), side_by_side(values)
    arguments, flags = mask_facts(N, a, lengths, dense, left, right, offset)
    context = values.new_empty(N, T, Dv)
    kept = a.new_empty(N, T, S + 2 + Dv, dtype=torch.float32)
    BT = tuning.power_of_two(T)

    BS, BD, warps = tuning.step_keys(D, BT)
    unit, *strides = _in_units(b)
    launch(
        *(score_step_kernel, (-(-S // BS), N, 1), (a, b, v, *arguments[:2]), (kept,)),
        (S, *strides, *arguments[2:7]),
        (*arguments[7:], scale),
        (*flags, T, D, Dv, unit, BT, BS, BD, has_assembler(a)),
        warps=warps,
    )
    BS, BD, warps = tuning.step_features(N, S, Dv, BT, values.element_size())
    unit, *strides = _in_units(values)
    launch(
        *(mix_step_kernel, (-(-Dv // BD), N, 1), (values,), (context, kept), (S, *strides), ()),
        (T, Dv, unit, BT, BS, BD, tuning.row_block(S)),
        warps=warps,
    )
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
    """Gradients of a, b, v and values, None where not needed. The mask is in the scores already."""
    from regard.kernels.additive_triton.step import key_step_kernel, slope_step_kernel, sum_step_kernel

    N, T, D = a.shape
    S, Dv = values.shape[1:]
    a, b, v, values = a.contiguous(), side_by_side(b), v.contiguous(), side_by_side(values)
    BT = tuning.power_of_two(T)
    slopes = kept.new_empty(N, T, S)
    grad_values = values.new_empty(N, S, Dv) if needed[3] else slopes
    BS, BD, warps = tuning.step_keys(Dv, BT)
    unit, *strides = _in_units(values)
    launch(
        *(slope_step_kernel, (-(-S // BS), N, 1), (grad.contiguous(), values)),
        *((kept, slopes, grad_values), (S, *strides), (scale,)),
        (T, Dv, unit, BT, BS, BD, needed[3]),
        warps=warps,
    )
    if not any(needed[:3]):
        return None, None, None, grad_values

    BS, BD, warps = tuning.step_features(N, S, D, BT, b.element_size())
    blocks = -(-D // BD)
    part = tuning.step_part(N * blocks, S, BS)
    splits = -(-S // part)
    grad_a, grad_v = a.new_empty(N, T, D), v.new_empty(D)
    grad_b = b.new_empty(N, S, D) if needed[1] else slopes
    # one part is the whole
    parts_a = grad_a if splits == 1 else kept.new_empty(splits, N, T, D)
    parts_v = grad_v if splits * N == 1 else kept.new_empty(splits, N, D)
    unit, *strides = _in_units(b)
    launch(
        *(key_step_kernel, (blocks, splits, N), (a, b, v), (slopes, grad_b, parts_a, parts_v)),
        *((S, *strides), (N, part)),
        (T, D, unit, BT, BS, BD, needed[1], has_assembler(a)),
        warps=warps,
    )
    if splits * N > 1:
        programs = -(-D // 8) + (0 if splits == 1 else -(-N * T * D // 512))
        sums = (parts_a, parts_v, grad_a, grad_v)
        launch(sum_step_kernel, (programs, 1, 1), (), sums, (), (N, splits), (T, D))
    return (
        grad_a if needed[0] else None,
        grad_b if needed[1] else None,
        grad_v if needed[2] else None,
        grad_values if needed[3] else None,
    )


def _in_units(x: Tensor) -> tuple[int, int, int]:
    """The greatest power of two, at most 16, that divides the strides of (N, S, D), and they in its units."""
    first, second = x.stride()[:2]
    unit = (first | second | 16) & -(first | second | 16)
    return unit, first // unit, second // unit

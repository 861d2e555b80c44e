"""Additive attention for few queries at a time on a GPU, as in a decoder's step.

With at most four queries the cost is reading keys and values, and for small sources it is host overhead. So a
step is two or three launches forward and three backward; outside compiled graphs it is a single autograd
function, including the projection of the query, that bypasses the registered operator; and launches bypass
Triton's dispatch (launching.py).
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.attention.numerics import no_autocast
from regard.attention.result import Alignment, on_demand
from regard.kernels import tuning
from regard.kernels.additive.additive_launch import has_assembler, mask_facts
from regard.kernels.additive.additive_operands import Operands
from regard.kernels.launching import Launch, launch, launch_together
from regard.kernels.ops import once
from regard.kernels.shapes import side_by_side

Needed = tuple[bool, bool, bool, bool, bool]  # which of query, W, b, v and values need a gradient
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def step(query: Tensor, W: Tensor | None, b: Tensor, v: Tensor, values: Tensor, *facts: Any) -> Tensor:
    """The context, (N, T, Dv), with its gradient.

    W (D, Dq) projects the query (N, T, Dq); if None, the query is already projected. The other arguments are
    those of `Operands`; v may have axes of size 1.
    """
    if torch.is_grad_enabled():
        return Step.apply(query, W, b, v, values, facts)  # type: ignore[no-untyped-call]
    return forward(query, W, b, v, values, *facts)[0]


class Step(torch.autograd.Function):
    """The autograd function of `forward` and `backward` below."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, W: Tensor | None, *rest: Any) -> Tensor:
        (*inputs, facts) = rest
        context, kept, a = forward(query, W, *inputs, *facts)
        ctx.save_for_backward(kept, query, W, a, *inputs)
        ctx.scale = facts[-1]
        return context

    @staticmethod
    @once
    def backward(ctx: Any, saved: tuple[Any, ...], grad: Tensor) -> tuple[Any, ...]:
        with no_autocast(grad):  # backward may be called under autocast
            kept, query, W, a, b, v, values = saved
            given = Operands(a, b, v, values, scale=ctx.scale)
            return (*backward(grad, kept, query, W, given, ctx.needs_input_grad[:5]), None)


def kept_alignment(kept: Tensor, S: int, scale: float, lead: tuple[int, ...]) -> Alignment:
    """Scores before the temperature, and weights, (..., T, S), from what a step has saved."""

    def weights() -> Tensor:
        found = torch.exp(kept[..., :S] - kept[..., S : S + 1]) * kept[..., S + 1 : S + 2]
        return found.view(*lead, *found.shape[1:])

    return on_demand(lambda: (kept[..., :S] / scale).view(*lead, -1, S), weights)


def forward(
    query: Tensor, W: Tensor | None, b: Tensor, v: Tensor, values: Tensor, *facts: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Context (N, T, Dv); `kept` (N, T, S + 2 + Dv) in float32, see additive_triton/step.py; and a."""
    (N, T, K), (S, D), Dv = query.shape, b.shape[1:], values.shape[2]
    if W is not None and not tuning.projects(N * T, D, K):
        query, W = torch.mm(query.reshape(N * T, K), W.t()).view(N, T, D), None
    query, b, v, values = query.contiguous(), side_by_side(b), v.contiguous(), side_by_side(values)
    (lengths, dense, *mask, low, high), flags = mask_facts((query, b, v, values, *facts))
    context, kept = values.new_empty(N, T, Dv), query.new_empty(N, T, S + 2 + Dv, dtype=torch.float32)
    a, W, K = (query, query, 0) if W is None else (query.new_empty(N, T, D), W.contiguous(), K)
    b_strides, v_strides, size = b.stride()[:2], values.stride()[:2], values.element_size()
    known = (N, T, S, D, Dv, K, b_strides, v_strides, tuple(mask), flags, size, has_assembler(a))
    given = (query, W, b, v, values, lengths, dense)
    launch_together(launches, known, given, (a, context, kept), (low, high, facts[-1]))
    return context, kept, a


def launches(facts: tuple[Any, ...]) -> Iterator[Launch]:
    """The launches of `forward`; facts and tensors come in the order below. K is 0 if a is given."""
    from regard.kernels.additive.additive_triton.step import (
        mix_step_kernel,
        project_step_kernel,
        score_step_kernel,
    )

    query, W, b, v, values, lengths, dense, a, context, kept = range(10)
    N, T, S, D, Dv, K, b_strides, v_strides, mask, flags, size, assembler = facts
    if K:
        BM, BD, BK = tuning.step_product(N * T)
        constants = (N * T, D, K, BM, BD, BK, assembler)
        yield Launch(project_step_kernel, (-(-D // BD), -(-N * T // BM), 1), (query, W, a), (), (), constants)
    BT = tuning.power_of_two(T)
    BS, BD, warps = tuning.step_keys(D, BT)
    unit, *strides = _in_units(b_strides)
    yield Launch(
        *(score_step_kernel, (-(-S // BS), N, 1), (a, b, v, lengths, dense, kept), (S, *strides, *mask)),
        *((0, 1, 2), (*flags, T, D, Dv, unit, BT, BS, BD, assembler), warps),
    )
    BS, BD, warps = tuning.step_features(N, S, Dv, BT, size)
    unit, *strides = _in_units(v_strides)
    yield Launch(
        *(mix_step_kernel, (-(-Dv // BD), N, 1), (values, context, kept), (S, *strides), ()),
        *((T, Dv, unit, BT, BS, BD, tuning.row_block(S)), warps),
    )


def forward_of_rows(given: Operands) -> tuple[Tensor, Tensor]:
    """The operator regard::additive_step."""
    return forward(given.a, None, *given[1:])[:2]


def backward_of_rows(grad: Tensor, kept: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    """The operator regard::additive_step_backward: empty where no gradient is needed."""
    a, b, v, values, scale, needed = rest
    given = Operands(a.contiguous(), b, v, values, scale=scale)
    found = backward(grad, kept, given.a, None, given, (needed[0], False, *needed[1:]))
    return tuple(grad.new_empty(0) if x is None else x for x in (found[0], *found[2:]))


def backward(
    grad: Tensor, kept: Tensor, query: Tensor, W: Tensor | None, given: Operands, needed: Needed
) -> Gradients:
    """Gradients of query, W, b, v and values, None where not needed. The saved scores include the mask."""
    from regard.kernels.additive.additive_triton.step import key_step_kernel, slope_step_kernel

    a, b, v, values = given[:4]
    N, T, D = a.shape
    S, Dv = values.shape[1:]
    b, v, values = side_by_side(b), v.contiguous(), side_by_side(values)
    BT = tuning.power_of_two(T)
    features = tuning.step_features(N, S, D, BT, b.element_size())
    blocks = -(-D // features[1])
    part = tuning.step_part(N * blocks, S, features[0])
    splits = -(-S // part)
    passed = kept.new_empty(N * (T * S + splits * D * (1 + T)))  # slopes, parts of grad_v and of grad_a
    grad_values = values.new_empty(N, S, Dv) if needed[4] else None
    BS, BD, warps = tuning.step_keys(Dv, BT)
    unit, *strides = _in_units(values.stride())
    launch(
        *(slope_step_kernel, (-(-S // BS), N, 1), (grad.contiguous(), values)),
        (kept, passed, passed if grad_values is None else grad_values),
        *((S, *strides), (given.scale,), (T, Dv, unit, BT, BS, BD, needed[4])),
        warps=warps,
    )
    if not any(needed[:4]):
        return None, None, None, None, grad_values

    BS, BD, warps = features
    grad_b = b.new_empty(N, S, D) if needed[2] else None
    unit, *strides = _in_units(b.stride())
    launch(
        *(key_step_kernel, (blocks, splits, N), (a, b, v), (passed, passed if grad_b is None else grad_b)),
        *((S, *strides), (N, part)),
        (T, D, unit, BT, BS, BD, needed[2], has_assembler(a)),
        warps=warps,
    )
    grad_v = v.new_empty(v.shape)
    of_query, of_W = _back_to_query(passed, grad_v, query, W, given, splits, needed)
    return of_query, of_W, grad_b, grad_v if needed[3] else None, grad_values


def _back_to_query(
    passed: Tensor,
    of_v: Tensor,
    query: Tensor,
    W: Tensor | None,
    given: Operands,
    splits: int,
    needed: Needed,
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of query and W from the partial sums in `passed`; also fills `of_v`."""
    from regard.kernels.additive.additive_triton.step import sum_step_kernel

    a, S = given.a, given.b.shape[1]
    N, T, D = a.shape
    M, K = N * T, query.shape[2]
    BM, BD, BK = tuning.step_product(M)
    own = W is not None and tuning.projects(M, D, K) and splits <= tuning.SPLITS
    programs = -(-D // 8)
    of_query = of_W = of_v  # placeholders, never written to in these roles
    if own:
        if needed[0]:
            of_query = query.new_empty(N, T, K)
            programs += -(-M // BM) * -(-K // (BK // 2))
        if needed[1]:
            of_W = query.new_empty(D, K)
            programs += -(-D // BD) * -(-K // BK)
    elif needed[0] or needed[1]:
        of_query = a.new_empty(N, T, D)  # the gradient of a
        programs += -(-M * D // 512)
    launch(
        *(sum_step_kernel, (programs, 1, 1), (query.contiguous(), a if W is None else W.contiguous())),
        *((passed, of_v, of_query, of_W), (), (S, N, splits)),
        (T, D, K, BM, BD, BK, splits if own else 1, own, needed[0], has_assembler(a)),
    )
    if own or W is None:
        return of_query if needed[0] else None, of_W if needed[1] else None
    return (
        torch.mm(of_query.view(M, D), W).view(N, T, K) if needed[0] else None,
        torch.mm(of_query.view(M, D).t(), query.reshape(M, K)) if needed[1] else None,
    )


def _in_units(strides: tuple[int, ...]) -> tuple[int, int, int]:
    """The largest power of two, at most 16, that divides the strides of (N, S, D), and the strides in it."""
    first, second = strides[:2]
    unit = (first | second | 16) & -(first | second | 16)
    return unit, first // unit, second // unit

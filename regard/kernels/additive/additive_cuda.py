"""Additive attention on a GPU without the (T, S, D) tensor: the kernels of Attention, and their autograd.

For short sequences the host takes longer than the device. So outside compiled graphs a call is a single
autograd function, including the projection of the query and the flattening of leading axes. The launches are
in additive_launch.py.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.dispatch import Call, Fused, Kernel
from regard.attention.forms import Additive
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import no_autocast
from regard.catalog import card
from regard.kernels.additive import additive_step_cuda
from regard.kernels.additive.additive_launch import SOFTMAX, Rows, backward, forward
from regard.kernels.additive.additive_operands import (
    STEP,
    Facts,
    Operands,
    additive,
    additive_operator,
    additive_step_operator,
    facts,
    operands,
    refuses_additive,
    restored,
)
from regard.kernels.compiler import triton_missing
from regard.kernels.ops import once
from regard.kernels.shapes import flat, leading

FEW = f"up to {STEP} queries are for additive-step-cuda"
MANY = f"more than {STEP} queries are for additive-cuda"


@card(
    "kernel",
    "additive-cuda",
    title="Fused additive attention on an NVIDIA GPU",
    authors="regard",
    year=2026,
    link="https://arxiv.org/abs/1409.0473",
    sentence="The same in Triton, for more than four queries at once.",
)
class AdditiveCUDA(Kernel):
    """The reference's additive attention on an NVIDIA GPU, by Triton."""

    name = "additive-cuda"
    forms = (Additive,)
    normalizers = (Softmax,)
    device = "cuda"

    def refuses(self, call: Call) -> str | None:
        if call.query.shape[-2] <= STEP:
            return FEW
        return triton_missing() or refuses_additive(call)

    def run(self, call: Call) -> Tensor:
        if torch.compiler.is_compiling():
            return restored(additive_operator(*operands(call)), call)
        return restored(attended(*arguments(call)), call)


@card(
    "kernel",
    "additive-step-cuda",
    title="Fused additive attention for a decoder's step on an NVIDIA GPU",
    authors="regard",
    year=2026,
    link="https://arxiv.org/abs/1409.0473",
    sentence="For up to four queries at a time: keys and values are read once in each direction.",
)
class AdditiveStepCUDA(Kernel):
    """The same for few queries at a time, as in a decoder's step."""

    name = "additive-step-cuda"
    forms = (Additive,)
    normalizers = (Softmax,)
    device = "cuda"

    def refuses(self, call: Call) -> str | None:
        if call.query.shape[-2] > STEP:
            return MANY
        return triton_missing() or refuses_additive(call)

    def run(self, call: Call) -> Tensor | Fused:
        if torch.compiler.is_compiling():
            return restored(additive_step_operator(*operands(call))[0], call)
        (query, keys, v, W), values = additive(call), call.source.values
        lead = leading(query, keys, values)
        given = (flat(query, lead), W, flat(keys, lead), v, flat(values, lead), *facts(call, lead))
        if torch.is_grad_enabled():
            return restored(additive_step_cuda.step(*given), call)
        context, kept, _ = additive_step_cuda.forward(*given)
        return Fused(
            restored(context, call), additive_step_cuda.kept_alignment(kept, keys.shape[-2], given[-1], lead)
        )


ADDITIVE_CUDA = AdditiveCUDA()
ADDITIVE_STEP_CUDA = AdditiveStepCUDA()
Arguments = tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor, Facts]


def arguments(call: Call) -> Arguments:
    """The arguments of `attended`, without reshaping if the leading axes are equal."""
    form, values = additive(call), call.source.values
    if form.W is not None and not torch.is_grad_enabled():  # a later look starts from a: no copy of W needed
        call.seen_form = form = form._replace(query=form.a, W=None)
    query, keys, v, W = form
    lead = query.shape[:-2]
    if not lead == keys.shape[:-2] == values.shape[:-2]:
        a, b, v, values, *rest = operands(call)
        return a, None, b, v, values, tuple(rest)  # type: ignore[return-value]
    return query, W, keys, v, values, facts(call, lead)


def attended(query: Tensor, W: Tensor | None, *rest: Any, normalizer: Rows = SOFTMAX) -> Tensor:
    """The context (..., T, Dv), with its gradient, from query, W, b, v, values and facts.

    W (D, Dq) projects the query (..., T, Dq); if None, the query is already projected. b (..., S, D) and
    values (..., S, Dv) have the same leading axes; v may have axes of size 1. The facts are the last six of
    `Operands`, for one leading axis.
    """
    if torch.is_grad_enabled():
        return Attended.apply(normalizer, query, W, *rest)  # type: ignore[no-untyped-call]
    b, v, values, facts = rest
    return _context(projected(query, W), b, v, values, facts, normalizer)


def projected(query: Tensor, W: Tensor | None) -> Tensor:
    """(..., T, Dq), (D, Dq) -> a (N, T, D)."""
    return flat(query if W is None else F.linear(query, W), query.shape[:-2])


def _context(a: Tensor, b: Tensor, v: Tensor, values: Tensor, facts: Facts, normalizer: Rows) -> Tensor:
    lead = b.shape[:-2]
    context = forward(Operands(a, flat(b, lead), v, flat(values, lead), *facts), normalizer)
    return context if len(lead) == 1 else context.view(*lead, *context.shape[1:])


class Attended(torch.autograd.Function):
    """The autograd function of `attended`."""

    @staticmethod
    def forward(ctx: Any, normalizer: Rows, query: Tensor, W: Tensor | None, *rest: Any) -> Tensor:
        a, (b, v, values, facts) = projected(query, W), rest
        ctx.save_for_backward(query, W, a, b, v, values, *facts[:2])
        ctx.rest, ctx.normalizer = facts[2:], normalizer
        return _context(a, b, v, values, facts, normalizer)

    @staticmethod
    @once
    def backward(ctx: Any, saved: tuple[Any, ...], grad: Tensor) -> tuple[Any, ...]:
        query, W, a, b, v, values, *masks = saved
        lead = b.shape[:-2]
        with no_autocast(grad):  # backward may be called under autocast
            given = Operands(a, flat(b, lead), v, flat(values, lead), *masks, *ctx.rest)
            of_a, of_b, of_v, of_values = backward(flat(grad, lead), given, ctx.normalizer)
            of_query, of_W = back_to_query(of_a, query, W, ctx.needs_input_grad[1:])
        return None, of_query, of_W, like(of_b, b), like(of_v, v), like(of_values, values), None


def back_to_query(
    of_a: Tensor, query: Tensor, W: Tensor | None, needed: tuple[bool, ...]
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of query and W from that of a (N, T, D), None where not needed."""
    if W is None:
        return like(of_a, query), None
    of_query = like(torch.matmul(of_a, W), query) if needed[0] else None
    if not needed[1]:
        return of_query, None
    D, K = W.shape
    return of_query, torch.mm(of_a.view(-1, D).t(), query.reshape(-1, K))


def like(x: Tensor, other: Tensor) -> Tensor:
    """The same numbers in the other's shape."""
    return x if x.ndim == other.ndim else x.view(other.shape)

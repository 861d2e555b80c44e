"""The operators of the fused kernels: schemas, shapes while tracing, gradients.

Registered with torch.library, so that compilation, autocast, checkpointing and data parallelism see one
opaque operator with a known shape and a known gradient. Imports torch only; an implementation is imported
when it runs.

    regard::additive        many queries: the context; the weights are never in memory as a whole
    regard::additive_step   few queries: the context, and what its gradient needs
    regard::additive_scores   the scores of additive attention, float32
    regard::pieces          causal dot-product attention at an offset: context and log-sum-exp
    regard::local           attention inside a band: the context
    regard::sparsemax       the weights of rows of scores, float32
    regard::sparsemax_product   attention with a product and sparsemax: context and weights

The arguments are explained in additive.py, pieces.py and local.py. Gradients of gradients are not
defined, and are refused.
"""
# mypy: disable-error-code="no-untyped-call, untyped-decorator"

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.errors import KernelRefused

LIBRARY = torch.library.Library("regard", "DEF")

_FACTS = "Tensor? lengths, Tensor? dense, SymInt? left, SymInt? right, SymInt offset, float scale"
_INPUTS = f"Tensor a, Tensor b, Tensor v, Tensor values, {_FACTS}"

_GRADIENTS = "(Tensor, Tensor, Tensor, Tensor)"

LIBRARY.define(f"additive({_INPUTS}) -> Tensor")
LIBRARY.define(f"additive_backward(Tensor grad, {_INPUTS}) -> {_GRADIENTS}")
LIBRARY.define(f"additive_step({_INPUTS}) -> (Tensor, Tensor)")
LIBRARY.define(
    "additive_step_backward(Tensor grad, Tensor kept, Tensor a, Tensor b, Tensor v, Tensor values, "
    f"float scale, bool[4] needed) -> {_GRADIENTS}"
)

Pair = tuple[Tensor, Tensor]
Gradients = tuple[Tensor, Tensor, Tensor, Tensor]


def _additive_cpu(*arguments: Any) -> Tensor:
    from regard.kernels import additive_cpu

    return additive_cpu.forward(*arguments)


def _additive_backward_cpu(*arguments: Any) -> Gradients:
    from regard.kernels import additive_cpu

    return additive_cpu.backward(*arguments)


def _additive_cuda(*arguments: Any) -> Tensor:
    from regard.kernels import additive_cuda

    return additive_cuda.forward(*arguments)


def _additive_backward_cuda(*arguments: Any) -> Gradients:
    from regard.kernels import additive_cuda

    return additive_cuda.backward(*arguments)


def _step_cuda(a: Tensor, *arguments: Any) -> Pair:
    from regard.kernels import additive_step_cuda

    return additive_step_cuda.forward(a.contiguous(), *arguments)


def _step_backward_cuda(grad: Tensor, kept: Tensor, a: Tensor, *rest: Any) -> Gradients:
    from regard.kernels import additive_step_cuda

    b, v, values, scale, (of_query, of_b, *others) = rest
    needed = (of_query, False, of_b, *others)
    a = a.contiguous()
    found = additive_step_cuda.backward(grad, kept, a, None, a, b, v, values, scale, needed)
    of_a, _, of_b, of_v, of_values = (grad.new_empty(0) if x is None else x for x in found)
    return of_a, of_b, of_v, of_values


LIBRARY.impl("additive", _additive_cpu, "CPU")
LIBRARY.impl("additive_backward", _additive_backward_cpu, "CPU")
LIBRARY.impl("additive", _additive_cuda, "CUDA")
LIBRARY.impl("additive_backward", _additive_backward_cuda, "CUDA")
LIBRARY.impl("additive_step", _step_cuda, "CUDA")
LIBRARY.impl("additive_step_backward", _step_backward_cuda, "CUDA")


@torch.library.register_fake("regard::additive", lib=LIBRARY)
def _(a: Tensor, b: Tensor, v: Tensor, values: Tensor, *facts: Any) -> Tensor:
    return values.new_empty(a.shape[0], a.shape[1], values.shape[-1])


@torch.library.register_fake("regard::additive_step", lib=LIBRARY)
def _(a: Tensor, b: Tensor, v: Tensor, values: Tensor, *facts: Any) -> Pair:
    N, T, S, Dv = a.shape[0], a.shape[1], *values.shape[1:]
    return values.new_empty(N, T, Dv), a.new_empty(N, T, S + 2 + Dv, dtype=torch.float32)


@torch.library.register_fake("regard::additive_backward", lib=LIBRARY)
def _(grad: Tensor, *inputs: Any) -> Gradients:
    return _like(*inputs[:4])


@torch.library.register_fake("regard::additive_step_backward", lib=LIBRARY)
def _(
    grad: Tensor,
    kept: Tensor,
    a: Tensor,
    b: Tensor,
    v: Tensor,
    values: Tensor,
    scale: float,
    needed: tuple[bool, ...],
) -> Gradients:
    given = zip((a, b, v, values), needed, strict=True)
    of_a, of_b, of_v, of_values = (
        x.new_empty(x.shape) if wanted else grad.new_empty(0) for x, wanted in given
    )
    return of_a, of_b, of_v, of_values


def _like(a: Tensor, b: Tensor, v: Tensor, values: Tensor) -> Gradients:
    return a.new_empty(a.shape), b.new_empty(b.shape), v.new_empty(v.shape), values.new_empty(values.shape)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:6])
    ctx.rest = inputs[6:]


def _gradient(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    gradients = torch.ops.regard.additive_backward(grad, *ctx.saved_tensors, *ctx.rest)
    return (*gradients, *(None,) * 6)


def _remember_step(ctx: Any, inputs: tuple[Any, ...], output: Pair) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1], *inputs[:4])
    ctx.scale = inputs[-1]


def _step_gradient(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
    needed = list(ctx.needs_input_grad[:4])
    found = torch.ops.regard.additive_step_backward(grad, *ctx.saved_tensors, ctx.scale, needed)
    return (*(x if wanted else None for x, wanted in zip(found, needed, strict=True)), *(None,) * 6)


torch.library.register_autograd("regard::additive", _gradient, setup_context=_remember, lib=LIBRARY)
torch.library.register_autograd(
    "regard::additive_step", _step_gradient, setup_context=_remember_step, lib=LIBRARY
)

additive = torch.ops.regard.additive
additive_step = torch.ops.regard.additive_step


_PRODUCT = "Tensor q, Tensor k, Tensor v, Tensor? bias"

LIBRARY.define(f"pieces({_PRODUCT}, SymInt offset, float scale) -> (Tensor, Tensor)")
LIBRARY.define(
    f"pieces_backward(Tensor grad, {_PRODUCT}, Tensor out, Tensor lse, SymInt offset, float scale)"
    " -> (Tensor, Tensor, Tensor)"
)


def _pieces(*arguments: Any) -> Pair:
    from regard.kernels import pieces

    return pieces.forward(*arguments)


def _pieces_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    from regard.kernels import pieces

    return pieces.backward(*arguments)


for _device in ("CPU", "CUDA"):
    LIBRARY.impl("pieces", _pieces, _device)
    LIBRARY.impl("pieces_backward", _pieces_backward, _device)


@torch.library.register_fake("regard::pieces", lib=LIBRARY)
def _(q: Tensor, k: Tensor, v: Tensor, *facts: Any) -> Pair:
    B, H, T = q.shape[:3]
    return v.new_empty(B, T, H, v.shape[-1]).transpose(1, 2), q.new_empty(B, H, T, dtype=torch.float32)


@torch.library.register_fake("regard::pieces_backward", lib=LIBRARY)
def _(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    of_q, of_k, of_v = (x.new_empty(x.transpose(1, 2).shape).transpose(1, 2) for x in (q, k, v))
    return of_q, of_k, of_v


def _remember_pieces(ctx: Any, inputs: tuple[Any, ...], output: Pair) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*inputs[:4], *output)
    ctx.rest = inputs[4:]


def _pieces_gradient(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
    gradients = torch.ops.regard.pieces_backward(grad, *ctx.saved_tensors, *ctx.rest)
    return (*gradients, None, None, None)


torch.library.register_autograd(
    "regard::pieces", _pieces_gradient, setup_context=_remember_pieces, lib=LIBRARY
)

pieces = torch.ops.regard.pieces


_LOCAL = (
    "Tensor q, Tensor k, Tensor values, Tensor? v, Tensor low, Tensor high, Tensor? p, "
    "SymInt half, SymInt block, SymInt width, float scale"
)

LIBRARY.define(f"local({_LOCAL}) -> Tensor")
LIBRARY.define(f"local_backward(Tensor grad, {_LOCAL}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")


def _local(*arguments: Any) -> Tensor:
    from regard.kernels import local

    return local.forward(local.Band(*arguments))


def _local_backward(grad: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    from regard.kernels import local

    return local.backward(grad, local.Band(*arguments))


for _device in ("CPU", "CUDA"):
    LIBRARY.impl("local", _local, _device)
    LIBRARY.impl("local_backward", _local_backward, _device)


@torch.library.register_fake("regard::local", lib=LIBRARY)
def _(q: Tensor, k: Tensor, values: Tensor, *rest: Any) -> Tensor:
    return values.new_empty(q.shape[0], q.shape[1], values.shape[-1])


@torch.library.register_fake("regard::local_backward", lib=LIBRARY)
def _(
    grad: Tensor, q: Tensor, k: Tensor, values: Tensor, v: Tensor | None, low: Tensor, high: Tensor,
    p: Tensor | None, *rest: Any
) -> tuple[Tensor, ...]:  # fmt: skip
    none = q.new_empty(0, dtype=torch.float32)
    of_v, of_p = (none if x is None else x.new_empty(x.shape) for x in (v, p))
    return q.new_empty(q.shape), k.new_empty(k.shape), values.new_empty(values.shape), of_v, of_p


def _remember_local(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:7])
    ctx.rest = inputs[7:]


def _local_gradient(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    *saved, p = ctx.saved_tensors
    q, k, values, v, of_p = torch.ops.regard.local_backward(grad, *saved, p, *ctx.rest)
    of_v = None if saved[3] is None else v
    return q, k, values, of_v, None, None, None if p is None else of_p, *(None,) * 4


torch.library.register_autograd("regard::local", _local_gradient, setup_context=_remember_local, lib=LIBRARY)

local = torch.ops.regard.local


LIBRARY.define("additive_scores(Tensor a, Tensor b, Tensor v) -> Tensor")
LIBRARY.define(
    "additive_scores_backward(Tensor grad, Tensor a, Tensor b, Tensor v) -> (Tensor, Tensor, Tensor)"
)


def _additive_scores(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    from regard.kernels import additive_cpu

    return additive_cpu.scores(a, b, v)


def _additive_scores_backward(grad: Tensor, a: Tensor, b: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    from regard.kernels import additive_cpu

    return additive_cpu.scores_backward(grad, a, b, v)


def _additive_scores_cuda(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    from regard.kernels import additive_cuda

    return additive_cuda.scores(a, b, v)


def _additive_scores_backward_cuda(
    grad: Tensor, a: Tensor, b: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    from regard.kernels import additive_cuda

    return additive_cuda.scores_backward(grad, a, b, v)


LIBRARY.impl("additive_scores", _additive_scores, "CPU")
LIBRARY.impl("additive_scores_backward", _additive_scores_backward, "CPU")
LIBRARY.impl("additive_scores", _additive_scores_cuda, "CUDA")
LIBRARY.impl("additive_scores_backward", _additive_scores_backward_cuda, "CUDA")


@torch.library.register_fake("regard::additive_scores", lib=LIBRARY)
def _(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    return a.new_empty(a.shape[0], a.shape[1], b.shape[1], dtype=torch.float32)


@torch.library.register_fake("regard::additive_scores_backward", lib=LIBRARY)
def _(grad: Tensor, a: Tensor, b: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return a.new_empty(a.shape), b.new_empty(b.shape), v.new_empty(v.shape)


def _remember_additive_scores(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _additive_scores_gradient(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    found: tuple[Any, ...] = torch.ops.regard.additive_scores_backward(grad, *ctx.saved_tensors)
    return found


torch.library.register_autograd(
    "regard::additive_scores",
    _additive_scores_gradient,
    setup_context=_remember_additive_scores,
    lib=LIBRARY,
)

additive_scores = torch.ops.regard.additive_scores


LIBRARY.define("sparsemax(Tensor scores) -> Tensor")
LIBRARY.define("sparsemax_backward(Tensor grad, Tensor weights) -> Tensor")


def _sparsemax_cpu(scores: Tensor) -> Tensor:
    from regard.kernels import sparsemax_cpu

    return sparsemax_cpu.forward(scores)


def _sparsemax_backward_cpu(grad: Tensor, weights: Tensor) -> Tensor:
    from regard.kernels import sparsemax_cpu

    return sparsemax_cpu.backward(grad, weights)


def _sparsemax_cuda(scores: Tensor) -> Tensor:
    from regard.kernels import sparsemax_cuda

    return sparsemax_cuda.forward(scores)


def _sparsemax_backward_cuda(grad: Tensor, weights: Tensor) -> Tensor:
    from regard.kernels import sparsemax_cuda

    return sparsemax_cuda.backward(grad, weights)


LIBRARY.impl("sparsemax", _sparsemax_cpu, "CPU")
LIBRARY.impl("sparsemax_backward", _sparsemax_backward_cpu, "CPU")
LIBRARY.impl("sparsemax", _sparsemax_cuda, "CUDA")
LIBRARY.impl("sparsemax_backward", _sparsemax_backward_cuda, "CUDA")


@torch.library.register_fake("regard::sparsemax", lib=LIBRARY)
def _(scores: Tensor) -> Tensor:
    return scores.new_empty(scores.shape)


@torch.library.register_fake("regard::sparsemax_backward", lib=LIBRARY)
def _(grad: Tensor, weights: Tensor) -> Tensor:
    return weights.new_empty(weights.shape)


def _remember_sparsemax(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(output)


def _sparsemax_gradient(ctx: Any, grad: Tensor) -> Tensor:
    return torch.ops.regard.sparsemax_backward(grad, *ctx.saved_tensors)


torch.library.register_autograd(
    "regard::sparsemax", _sparsemax_gradient, setup_context=_remember_sparsemax, lib=LIBRARY
)

sparsemax = torch.ops.regard.sparsemax


LIBRARY.define(
    "sparsemax_product(Tensor q, Tensor k, Tensor values, Tensor? hidden, float scale) -> (Tensor, Tensor)"
)
LIBRARY.define(
    "sparsemax_product_backward(Tensor grad, Tensor q, Tensor k, Tensor values, Tensor weights, float scale)"
    " -> (Tensor, Tensor, Tensor)"
)


def _sparsemax_product(*arguments: Any) -> Pair:
    from regard.kernels import sparsemax_cpu

    return sparsemax_cpu.product(*arguments)


def _sparsemax_product_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    from regard.kernels import sparsemax_cpu

    return sparsemax_cpu.product_backward(*arguments)


def _sparsemax_product_cuda(*arguments: Any) -> Pair:
    from regard.kernels import sparsemax_cuda

    return sparsemax_cuda.product(*arguments)


def _sparsemax_product_backward_cuda(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    from regard.kernels import sparsemax_cuda

    return sparsemax_cuda.product_backward(*arguments)


LIBRARY.impl("sparsemax_product", _sparsemax_product, "CPU")
LIBRARY.impl("sparsemax_product_backward", _sparsemax_product_backward, "CPU")
LIBRARY.impl("sparsemax_product", _sparsemax_product_cuda, "CUDA")
LIBRARY.impl("sparsemax_product_backward", _sparsemax_product_backward_cuda, "CUDA")


@torch.library.register_fake("regard::sparsemax_product", lib=LIBRARY)
def _(q: Tensor, k: Tensor, values: Tensor, hidden: Tensor | None, scale: float) -> Pair:
    N, T, S = q.shape[0], q.shape[1], k.shape[1]
    return q.new_empty(N, T, values.shape[-1]), q.new_empty(N, T, S)


@torch.library.register_fake("regard::sparsemax_product_backward", lib=LIBRARY)
def _(
    grad: Tensor, q: Tensor, k: Tensor, values: Tensor, weights: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), values.new_empty(values.shape)


def _remember_sparsemax_product(ctx: Any, inputs: tuple[Any, ...], output: Pair) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*inputs[:3], output[1])
    ctx.scale = inputs[4]


def _sparsemax_product_gradient(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
    gradients = torch.ops.regard.sparsemax_product_backward(grad, *ctx.saved_tensors, ctx.scale)
    return (*gradients, None, None)


torch.library.register_autograd(
    "regard::sparsemax_product",
    _sparsemax_product_gradient,
    setup_context=_remember_sparsemax_product,
    lib=LIBRARY,
)

sparsemax_product = torch.ops.regard.sparsemax_product


def _of_a_gradient(ctx: Any, *gradients: Any) -> None:
    raise KernelRefused(
        "a fused kernel has no gradient of its gradient; expected one backward pass. "
        "`Attention(…, kernel='reference')` can be differentiated again."
    )


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Callable[..., tuple[Tensor, ...]], *arguments: Any) -> tuple[Tensor, ...]:
        return run(*arguments)

    backward = staticmethod(_of_a_gradient)


def once(run: Callable[..., tuple[Tensor, ...]], *arguments: Any) -> tuple[Tensor, ...]:
    """A gradient that is no operator, in a graph that refuses to be differentiated."""
    found: tuple[Tensor, ...] = _Once.apply(run, *arguments)
    return found


_OPERATORS = ("additive", "additive_step", "additive_scores", "pieces", "local")
for _name in (*_OPERATORS, "sparsemax", "sparsemax_product"):
    torch.library.register_autograd(f"regard::{_name}_backward", _of_a_gradient, lib=LIBRARY)

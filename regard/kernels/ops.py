"""The operators of the fused kernels: schemas, shapes while tracing, gradients.

Registered with torch.library, so that compilation, autocast, checkpointing and data parallelism see one
opaque operator with a known shape and a known gradient. Imports torch only; an implementation is imported
when it runs.

    regard::additive        many queries: the context; the weights are never in memory as a whole
    regard::additive_step   few queries: context and weights, which are then as small as the scores of one
    step

The arguments are explained in additive.py. Gradients of gradients are not defined.
"""
# mypy: disable-error-code="no-untyped-call, untyped-decorator"

from typing import Any

import torch
from torch import Tensor

LIBRARY = torch.library.Library("regard", "DEF")

_FACTS = "Tensor? lengths, Tensor? dense, SymInt? left, SymInt? right, SymInt offset, float scale"
_INPUTS = f"Tensor a, Tensor b, Tensor v, Tensor values, {_FACTS}"

_GRADIENTS = "(Tensor, Tensor, Tensor, Tensor)"

LIBRARY.define(f"additive({_INPUTS}) -> Tensor")
LIBRARY.define(f"additive_backward(Tensor grad, {_INPUTS}) -> {_GRADIENTS}")
LIBRARY.define(f"additive_step({_INPUTS}) -> (Tensor, Tensor)")
LIBRARY.define(f"additive_step_backward(Tensor grad, Tensor weights, {_INPUTS}) -> {_GRADIENTS}")

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


def _step_cuda(*arguments: Any) -> Pair:
    from regard.kernels import additive_step_cuda

    return additive_step_cuda.forward(*arguments)


def _step_backward_cuda(*arguments: Any) -> Gradients:
    from regard.kernels import additive_step_cuda

    return additive_step_cuda.backward(*arguments)


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
    N, T, S = a.shape[0], a.shape[1], b.shape[1]
    return values.new_empty(N, T, values.shape[-1]), a.new_empty(N, T, S, dtype=torch.float32)


@torch.library.register_fake("regard::additive_backward", lib=LIBRARY)
def _(grad: Tensor, *inputs: Any) -> Gradients:
    return _like(*inputs[:4])


@torch.library.register_fake("regard::additive_step_backward", lib=LIBRARY)
def _(grad: Tensor, weights: Tensor, *inputs: Any) -> Gradients:
    return _like(*inputs[:4])


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
    ctx.save_for_backward(output[1], *inputs[:6])
    ctx.rest = inputs[6:]


def _step_gradient(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
    gradients = torch.ops.regard.additive_step_backward(grad, *ctx.saved_tensors, *ctx.rest)
    return (*gradients, *(None,) * 6)


torch.library.register_autograd("regard::additive", _gradient, setup_context=_remember, lib=LIBRARY)
torch.library.register_autograd(
    "regard::additive_step", _step_gradient, setup_context=_remember_step, lib=LIBRARY
)

additive = torch.ops.regard.additive
additive_step = torch.ops.regard.additive_step

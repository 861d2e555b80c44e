"""The operators of the fused kernels: schemas, shapes while tracing, gradients.

Registered with torch.library, so that compilation, autocast, checkpointing and data parallelism see one
opaque operator with a known shape and a known gradient. Imports torch only; an implementation is imported
when it first runs.

    regard::additive            many queries: the context; the weights are never in memory as a whole
    regard::additive_step       few queries: the context, and what its gradient needs
    regard::additive_scores     the scores of additive attention, float32
    regard::causal_offset       causal dot-product attention at an offset: context and log-sum-exp
    regard::local               attention inside a band: the context
    regard::sparsemax           the weights of rows of scores, float32
    regard::sparsemax_product   attention with a product and sparsemax: context and weights

The arguments are explained in additive_operands.py, causal_offset.py and local_attention.py. Gradients of
gradients are not defined, and are refused.
"""
# mypy: disable-error-code="no-untyped-call"

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.errors import KernelRefused

LIBRARY = torch.library.Library("regard", "DEF")
Pair = tuple[Tensor, Tensor]


def operator(
    name: str,
    inputs: str,
    outputs: str,
    *,
    shapes: Callable[..., Any],
    saves: Callable[[tuple[Any, ...], Any], tuple[Any, ...]],
    backward: tuple[str, str, Callable[..., Any]],
    gradients: Callable[[Any, Any], tuple[Any, ...]] | None = None,
    flags: int = 0,
    **runs: tuple[str, str],
) -> Any:
    """Register regard::name and regard::name_backward; return the first.

    `shapes` makes the outputs while tracing. `saves` picks what the backward operator is given after the
    gradient of the first output; the other outputs have none. `backward` is its further inputs, its outputs,
    and their shapes. Its outputs are the gradients of the first inputs unless `gradients(ctx, found)` says
    otherwise. With `flags`, its last input says of so many first inputs which need a gradient. `runs` names
    two functions for a device, "module.function", forward and backward.
    """
    further, returned, backward_shapes = backward
    LIBRARY.define(f"{name}({inputs}) -> {outputs}")
    LIBRARY.define(f"{name}_backward(Tensor grad, {further}) -> {returned}")
    for device, (forward, back) in runs.items():
        LIBRARY.impl(name, _lazy(forward), device.upper())
        LIBRARY.impl(f"{name}_backward", _lazy(back), device.upper())
    torch.library.register_fake(f"regard::{name}", shapes, lib=LIBRARY)
    torch.library.register_fake(f"regard::{name}_backward", backward_shapes, lib=LIBRARY)
    made, derived = getattr(torch.ops.regard, name), getattr(torch.ops.regard, f"{name}_backward")
    number = len(made.default._schema.arguments)

    def remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, tuple):
            ctx.mark_non_differentiable(*output[1:])
        kept = saves(inputs, output)
        ctx.save_for_backward(*(x for x in kept if isinstance(x, Tensor)))
        ctx.others = [None if isinstance(x, Tensor) else (x,) for x in kept]

    def differentiate(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:
        tensors = iter(ctx.saved_tensors)
        kept = [next(tensors) if x is None else x[0] for x in ctx.others]
        needed = [list(ctx.needs_input_grad[:flags])] if flags else []
        found = derived(grad, *kept, *needed)
        found = found if gradients is None else gradients(ctx, found)
        found = (found,) if isinstance(found, Tensor) else tuple(found)
        return (*found, *(None,) * (number - len(found)))

    torch.library.register_autograd(f"regard::{name}", differentiate, setup_context=remember, lib=LIBRARY)
    torch.library.register_autograd(f"regard::{name}_backward", _of_a_gradient, lib=LIBRARY)
    return made


def _lazy(path: str) -> Callable[..., Any]:
    """The function regard.kernels.PATH, imported when it first runs."""
    module, _, function = path.rpartition(".")

    def run(*arguments: Any) -> Any:
        return getattr(import_module(f"regard.kernels.{module}"), function)(*arguments)

    return run


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


def _like(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(x.new_empty(x.shape) for x in tensors)


def _wanted(ctx: Any, found: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    """Gradients of the first inputs, as far as anyone asks for them."""
    return tuple(x if need else None for x, need in zip(found, ctx.needs_input_grad, strict=False))


_GRADIENTS = "(Tensor, Tensor, Tensor, Tensor)"
_FACTS = "Tensor? lengths, Tensor? dense, SymInt? left, SymInt? right, SymInt offset, float scale"
_ADDITIVE = f"Tensor a, Tensor b, Tensor v, Tensor values, {_FACTS}"

additive = operator(
    "additive",
    _ADDITIVE,
    "Tensor",
    shapes=lambda a, b, v, values, *facts: values.new_empty(*a.shape[:2], values.shape[-1]),
    saves=lambda inputs, output: inputs,
    backward=(_ADDITIVE, _GRADIENTS, lambda grad, *inputs: _like(*inputs[:4])),
    cpu=("additive.additive_cpu.forward", "additive.additive_cpu.backward"),
    cuda=("additive.additive_launch.forward", "additive.additive_launch.backward"),
)


def _step_shapes(a: Tensor, b: Tensor, v: Tensor, values: Tensor, *facts: Any) -> Pair:
    N, T, S, Dv = a.shape[0], a.shape[1], *values.shape[1:]
    return values.new_empty(N, T, Dv), a.new_empty(N, T, S + 2 + Dv, dtype=torch.float32)


def _step_gradients(grad: Tensor, kept: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    *inputs, _, needed = rest
    given = zip(inputs, needed, strict=True)
    return tuple(x.new_empty(x.shape) if wanted else grad.new_empty(0) for x, wanted in given)


additive_step = operator(
    "additive_step",
    _ADDITIVE,
    "(Tensor, Tensor)",
    shapes=_step_shapes,
    saves=lambda inputs, output: (output[1], *inputs[:4], inputs[-1]),
    backward=(
        "Tensor kept, Tensor a, Tensor b, Tensor v, Tensor values, float scale, bool[4] needed",
        _GRADIENTS,
        _step_gradients,
    ),
    gradients=_wanted,
    flags=4,
    cuda=("additive.additive_step_cuda.forward_of_rows", "additive.additive_step_cuda.backward_of_rows"),
)

additive_scores = operator(
    "additive_scores",
    "Tensor a, Tensor b, Tensor v",
    "Tensor",
    shapes=lambda a, b, v: a.new_empty(*a.shape[:2], b.shape[1], dtype=torch.float32),
    saves=lambda inputs, output: inputs,
    backward=(
        "Tensor a, Tensor b, Tensor v",
        "(Tensor, Tensor, Tensor)",
        lambda grad, a, b, v: _like(a, b, v),
    ),
    cpu=("additive.additive_cpu.scores", "additive.additive_cpu.scores_backward"),
    cuda=("additive.additive_launch.scores", "additive.additive_launch.scores_backward"),
)

_PRODUCT = "Tensor q, Tensor k, Tensor v, Tensor? bias"


def _pieces_shapes(q: Tensor, k: Tensor, v: Tensor, *facts: Any) -> Pair:
    B, H, T = q.shape[:3]
    return v.new_empty(B, T, H, v.shape[-1]).transpose(1, 2), q.new_empty(B, H, T, dtype=torch.float32)


def _pieces_gradients(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return tuple(x.new_empty(x.transpose(1, 2).shape).transpose(1, 2) for x in (q, k, v))


_CAUSAL_OFFSET = ("product.causal_offset.forward", "product.causal_offset.backward")
causal_offset = operator(
    "causal_offset",
    f"{_PRODUCT}, SymInt offset, float scale",
    "(Tensor, Tensor)",
    shapes=_pieces_shapes,
    saves=lambda inputs, output: (*inputs[:4], *output, *inputs[4:]),
    backward=(
        f"{_PRODUCT}, Tensor out, Tensor lse, SymInt offset, float scale",
        "(Tensor, Tensor, Tensor)",
        _pieces_gradients,
    ),
    cpu=_CAUSAL_OFFSET,
    cuda=_CAUSAL_OFFSET,
)

_LOCAL = (
    "Tensor q, Tensor k, Tensor values, Tensor? v, Tensor low, Tensor high, Tensor? p, "
    "SymInt half, SymInt block, SymInt width, float scale"
)


def _local_gradients(
    grad: Tensor, q: Tensor, k: Tensor, values: Tensor, v: Tensor | None, low: Tensor, high: Tensor,
    p: Tensor | None, *rest: Any
) -> tuple[Tensor, ...]:  # fmt: skip
    none = q.new_empty(0, dtype=torch.float32)
    return (*_like(q, k, values), *(none if x is None else x.new_empty(x.shape) for x in (v, p)))


def _of_band(ctx: Any, found: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    """What has no v or no p has no gradient of it."""
    q, k, values, v, p = found
    needs = ctx.needs_input_grad
    return q, k, values, v if needs[3] else None, None, None, p if needs[6] else None


_RUNS = ("local.local_attention.forward_of_band", "local.local_attention.backward_of_band")
local = operator(
    "local",
    _LOCAL,
    "Tensor",
    shapes=lambda q, k, values, *rest: values.new_empty(*q.shape[:2], values.shape[-1]),
    saves=lambda inputs, output: inputs,
    backward=(_LOCAL, "(Tensor, Tensor, Tensor, Tensor, Tensor)", _local_gradients),
    gradients=_of_band,
    cpu=_RUNS,
    cuda=_RUNS,
)

sparsemax = operator(
    "sparsemax",
    "Tensor scores",
    "Tensor",
    shapes=lambda scores: scores.new_empty(scores.shape),
    saves=lambda inputs, output: (output,),
    backward=("Tensor weights", "Tensor", lambda grad, weights: weights.new_empty(weights.shape)),
    cpu=("sparsemax.sparsemax_cpu.forward", "sparsemax.sparsemax_cpu.backward"),
    cuda=("sparsemax.sparsemax_cuda.forward", "sparsemax.sparsemax_cuda.backward"),
)


def _product_shapes(q: Tensor, k: Tensor, values: Tensor, hidden: Tensor | None, scale: float) -> Pair:
    N, T, S = q.shape[0], q.shape[1], k.shape[1]
    return q.new_empty(N, T, values.shape[-1]), q.new_empty(N, T, S)


sparsemax_product = operator(
    "sparsemax_product",
    "Tensor q, Tensor k, Tensor values, Tensor? hidden, float scale",
    "(Tensor, Tensor)",
    shapes=_product_shapes,
    saves=lambda inputs, output: (*inputs[:3], output[1], inputs[4]),
    backward=(
        "Tensor q, Tensor k, Tensor values, Tensor weights, float scale",
        "(Tensor, Tensor, Tensor)",
        lambda grad, q, k, values, weights, scale: _like(q, k, values),
    ),
    cpu=("sparsemax.sparsemax_cpu.product", "sparsemax.sparsemax_cpu.product_backward"),
    cuda=("sparsemax.sparsemax_cuda.product", "sparsemax.sparsemax_cuda.product_backward"),
)

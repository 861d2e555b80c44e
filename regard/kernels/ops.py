"""Registers the operators of the fused kernels: schema, shapes while tracing, gradients.

Operators are registered with torch.library, so that compilation, autocast, checkpointing and data parallelism
see one opaque operator with a known shape and gradient. Each family declares its own:

    regard::additive            many queries: the context; the full weights are never in memory
    regard::additive_step       few queries: the context, and tensors saved for its backward
    regard::additive_scores     the scores of additive attention, float32
    regard::causal_offset       causal dot-product attention at an offset: context and log-sum-exp
    regard::local               attention inside a band: the context
    regard::sparsemax           the weights of rows of scores, float32
    regard::sparsemax_product   attention with a product and sparsemax: context and weights
    regard::sparsemax_long      the same in blocks of rows: the context

An implementation is imported when it first runs. Second derivatives are not defined: they raise.
"""
# mypy: disable-error-code="no-untyped-call"

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, get_type_hints

import torch
from torch import Tensor

from regard.errors import KernelRefused

LIBRARY = torch.library.Library("regard", "DEF")
TYPES = {Tensor: "Tensor", Tensor | None: "Tensor?", int: "SymInt", int | None: "SymInt?", float: "float"}
Operands = type[tuple[Any, ...]] | str  # a NamedTuple, passed to functions as one value; or a schema


def operator(
    name: str,
    inputs: Operands,
    outputs: str,
    *,
    of: str,
    shapes: Callable[..., Any],
    saves: Callable[[Any, Any], tuple[Any, ...]] = lambda inputs, output: inputs,
    kept: Operands | None = None,
    slopes: Callable[..., Any] | None = None,
    **runs: tuple[str, str],
) -> Any:
    """Register regard::name and regard::name_backward; return the first.

    Only the first output has a gradient; it yields those of the inputs `of`. While tracing, `shapes` makes
    the outputs and `slopes` the gradients, by default shaped like the inputs. The backward operator receives
    that gradient and the arguments `kept`, which `saves` picks from inputs and outputs; by default the
    inputs. A last argument named `needed` tells which gradients are wanted. `runs` maps a device to its
    forward and backward functions, "module.function".
    """
    wanted, kept = of.split(), inputs if kept is None else kept
    returned = f"({', '.join(['Tensor'] * len(wanted))})" if len(wanted) > 1 else "Tensor"
    LIBRARY.define(f"{name}({_schema(inputs)}) -> {outputs}")
    LIBRARY.define(f"{name}_backward(Tensor grad, {_schema(kept)}) -> {returned}")
    for device, (forward, back) in runs.items():
        LIBRARY.impl(name, _whole(_lazy(forward), inputs), device.upper())
        LIBRARY.impl(f"{name}_backward", _whole(_lazy(back), kept, 1), device.upper())
    made, derived = getattr(torch.ops.regard, name), getattr(torch.ops.regard, f"{name}_backward")
    names = [x.name for x in made.default._schema.arguments]
    places, flags = [names.index(x) for x in wanted], derived.default._schema.arguments[-1].name == "needed"

    def like(grad: Tensor, *given: Any) -> Any:
        empty = grad.new_empty(0, dtype=torch.float32)
        found = [empty if given[i] is None else given[i].new_empty(given[i].shape) for i in places]
        return tuple(found) if len(found) > 1 else found[0]

    torch.library.register_fake(f"regard::{name}", _whole(shapes, inputs), lib=LIBRARY)
    fake = like if slopes is None else _whole(slopes, kept, 1)
    torch.library.register_fake(f"regard::{name}_backward", fake, lib=LIBRARY)

    def remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, tuple):
            ctx.mark_non_differentiable(*output[1:])
        found = saves(inputs, output)
        ctx.save_for_backward(*(x for x in found if isinstance(x, Tensor)))
        ctx.others = [None if isinstance(x, Tensor) else (x,) for x in found]

    def differentiate(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:
        tensors, needs = iter(ctx.saved_tensors), ctx.needs_input_grad
        given = [next(tensors) if x is None else x[0] for x in ctx.others]
        found = derived(grad, *given, *([[needs[i] for i in places]] if flags else []))
        by_name = dict(zip(wanted, (found,) if isinstance(found, Tensor) else found, strict=True))
        return tuple(by_name.get(x) if need else None for x, need in zip(names, needs, strict=True))

    torch.library.register_autograd(f"regard::{name}", differentiate, setup_context=remember, lib=LIBRARY)
    torch.library.register_autograd(f"regard::{name}_backward", _of_a_gradient, lib=LIBRARY)
    return made


def _schema(operands: Operands) -> str:
    if isinstance(operands, str):
        return operands
    return ", ".join(f"{TYPES[kind]} {name}" for name, kind in get_type_hints(operands).items())


def _whole(run: Callable[..., Any], operands: Operands, first: int = 0) -> Callable[..., Any]:
    """The function, called with its arguments from `first` on packed into the operands' NamedTuple."""
    if isinstance(operands, str):
        return run
    return lambda *given: run(*given[:first], operands(*given[first:]))


def _lazy(path: str) -> Callable[..., Any]:
    """The function regard.kernels.PATH, imported when it first runs."""
    module, _, function = path.rpartition(".")
    return lambda *given: getattr(import_module(f"regard.kernels.{module}"), function)(*given)


def _of_a_gradient(ctx: Any, *gradients: Any) -> None:
    raise KernelRefused(
        "a fused kernel has no second derivative; expected one backward pass. "
        "`Attention(…, kernel='reference')` can be differentiated again."
    )


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Callable[..., Any], *tensors: Any) -> Any:
        return run()

    backward = staticmethod(_of_a_gradient)


def once(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Turn backward(ctx, saved, *slopes) into the backward of an autograd.Function.

    With `create_graph`, differentiating the result raises.
    """

    def run(ctx: Any, *slopes: Any) -> Any:
        saved = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _Once.apply(partial(backward, ctx, saved, *slopes), *slopes, *saved)
        return backward(ctx, saved, *slopes)

    return run

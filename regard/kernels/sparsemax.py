"""Sparsemax of any score, without sorting.

    weights = sparsemax(scores): the threshold by Newton's steps, its gradient in closed form

The scores are the reference's own; sparsemax_cpu.py and sparsemax_cuda.py normalise them. Scores that are
products are made and normalised in one call on a CPU: most weights are zero, and what belongs to these is
left out of the product with the values and of every gradient. Where the scores of all queries would be too
many for memory, blocks of queries are computed one after another, and again in the backward pass (blocks.py).
"""

from typing import Any

import torch
from torch import Tensor

from regard.attention.compose import mix, scored
from regard.attention.normalizers.sparsemax import Sparsemax
from regard.attention.numerics import exact, full
from regard.kernels import ops, sparsemax_cpu, sparsemax_cuda
from regard.kernels.blocks import in_blocks, is_large
from regard.kernels.compiler import triton_missing
from regard.kernels.dispatch import Call, Fused
from regard.kernels.products import leading, product_form, refuses_product, refuses_window, three_axes


class SparsemaxKernel:
    """The reference's scores, normalised without sorting."""

    name = "sparsemax"

    def refuses(self, call: Call) -> str | None:
        if type(call.normalizer) is not Sparsemax:
            return f"normalizer is {type(call.normalizer).__name__}, this kernel computes Sparsemax"
        if call.query.dtype == torch.float64:
            return "dtype is torch.float64, which goes to the reference"
        if 0 in (call.query.shape[-2], call.source.S):
            return "there is nothing to attend to"
        return triton_missing() if call.query.is_cuda else None

    def run(self, call: Call) -> Tensor | Fused:
        if is_large(call) and call.dropout == 0:
            return in_blocks(call, rows)
        if _is_product(call):
            return _product(call)
        scores, factor = scored(call)
        weights = rows(scores)
        weights = weights if factor is None else weights * factor
        used = torch.dropout(weights, call.dropout, train=True) if call.dropout else weights
        return Fused(mix(used, call.source.values), (scores, weights))


SPARSEMAX = SparsemaxKernel()


def rows(scores: Tensor) -> Tensor:
    """(..., S) -> weights. Outside of compiled graphs no operator stands between autograd and what runs."""
    if torch.compiler.is_compiling():
        return ops.sparsemax(scores.contiguous())
    if not (scores.requires_grad and torch.is_grad_enabled()):
        return (sparsemax_cuda if scores.is_cuda else sparsemax_cpu).forward(scores)
    return _Rows.apply(scores)  # type: ignore[no-untyped-call]


def _is_product(call: Call) -> bool:
    """Scores and values of this call are products, and the loops that leave out zeros are for its device."""
    fused = call.query.device.type == "cpu" and call.dropout == 0
    return fused and refuses_product(call) is None and refuses_window(call) is None


def _product(call: Call) -> Tensor:
    query, scale = product_form(call)
    keys, values, mask = call.source.keys, call.source.values, call.source.mask
    lead = leading(query, keys, values)
    hidden = None
    if not mask.is_trivial:
        shown = mask.to_dense(query.shape[-2], keys.shape[-2], ndim=len(lead) + 2, device=query.device)
        hidden = None if shown is None else three_axes(~(shown if shown.ndim > 1 else shown[None]), lead)
    q, k, v = (three_axes(full(x), lead) for x in (query, keys, values))
    with exact(query):
        if torch.compiler.is_compiling():
            context = ops.sparsemax_product(q, k, v, hidden, scale)[0]
        elif torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
            context = _Product.apply(q, k, v, hidden, scale)  # type: ignore[no-untyped-call]
        else:
            context = sparsemax_cpu.product(q, k, v, hidden, scale)[0]
    context = context if len(lead) == 1 else context.reshape(*lead, *context.shape[-2:])
    return context.to(values.dtype)


class _Rows(torch.autograd.Function):
    """The operator regard::sparsemax."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = (sparsemax_cuda if scores.is_cuda else sparsemax_cpu).forward(scores)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        own = sparsemax_cuda if grad.is_cuda else sparsemax_cpu
        # who wants a graph of this gets the operator, which says that gradients of gradients are not defined
        run = torch.ops.regard.sparsemax_backward if torch.is_grad_enabled() else own.backward
        return run(grad, *ctx.saved_tensors)


class _Product(torch.autograd.Function):
    """The operator regard::sparsemax_product."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, values: Tensor, hidden: Tensor | None, scale: float
    ) -> Tensor:
        context, weights = sparsemax_cpu.product(q, k, values, hidden, scale)
        ctx.save_for_backward(q, k, values, weights)
        ctx.scale = scale
        return context

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        operator: Any = torch.ops.regard.sparsemax_product_backward
        run = operator if torch.is_grad_enabled() else sparsemax_cpu.product_backward
        q, k, values, weights = ctx.saved_tensors
        return (*run(grad, q, k, values, weights, ctx.scale), None, None)

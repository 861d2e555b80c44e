"""Sparsemax of any score, without sorting.

    weights = sparsemax(scores): the threshold by Newton's steps, its gradient in closed form

The scores are the reference's own; sparsemax_cpu.py and sparsemax_cuda.py normalise them. Products are scored
and normalised in one call: on a CPU zero weights, which are most of them, are skipped in the product with the
values and in every gradient; on a GPU half precision is kept in every product. Their weights are saved for
the backward pass up to a limit; above it blocks of rows are computed one by one, and again in the backward
pass: memory grows with T + S. Additive scores of many queries come from additive_cpu.py and additive_cuda.py,
in blocks too; all other scores are the reference's, in the blocks of blocks.py if there are too many.
"""

from math import prod
from typing import Any

import torch
from torch import Tensor

from regard.attention.dispatch import Call, Fused, Kernel
from regard.attention.forms import Additive, Product
from regard.attention.normalizers.sparsemax import Sparsemax
from regard.attention.numerics import is_lowered, no_autocast
from regard.attention.parts import is_own
from regard.attention.reference import masked_scores, weighted_sum
from regard.attention.result import Alignment
from regard.attention.windows.everywhere import Everywhere
from regard.catalog import card
from regard.kernels.additive import additive_cpu, additive_cuda, additive_launch
from regard.kernels.additive.additive_operands import (
    STEP,
    operands,
    refuses_additive,
    refuses_facts,
    restored,
)
from regard.kernels.compiler import triton_missing
from regard.kernels.ops import once, operator
from regard.kernels.product.blocks import in_blocks, is_large
from regard.kernels.product.product_rows import Products, flattened, full_product, parts, products_of
from regard.kernels.product.products import HALF_OR_SINGLE, hidden_pairs, product, refuses_dtypes
from regard.kernels.shapes import flat, leading
from regard.kernels.sparsemax import sparsemax_cpu, sparsemax_cuda
from regard.kernels.sparsemax.sparsemax_cuda import WIDEST


@card(
    "kernel",
    "sparsemax",
    title="Sparsemax without sorting",
    authors="regard",
    year=2026,
    link="https://arxiv.org/abs/1602.02068",
    sentence=(
        "The threshold by Newton's steps, the gradient in closed form; in C++ on a CPU, in Triton on a GPU."
    ),
)
class SparsemaxKernel(Kernel):
    """The reference's scores, normalised without sorting."""

    name = "sparsemax"
    normalizers = (Sparsemax,)
    windows = None
    drops = True

    def refuses(self, call: Call) -> str | None:
        for x in (call.query, call.source.keys, call.source.values):
            if x.dtype not in HALF_OR_SINGLE:
                return f"dtype is {x.dtype}, which goes to the reference"
        if call.query.shape[-2] == 0 or call.source.keys.shape[-2] == 0:
            return "there is nothing to attend to"
        return triton_missing() if call.query.is_cuda else None

    def run(self, call: Call) -> Tensor | Fused:
        if _is_additive(call):
            return restored(_additive(call), call)
        if _is_product(call):
            return _product(call)
        if is_large(call) and call.dropout == 0:
            return in_blocks(call, rows)
        scores, factor = masked_scores(call)
        weights = rows(scores)
        weights = weights if factor is None else weights * factor
        used = torch.dropout(weights, call.dropout, train=True) if call.dropout else weights
        return Fused(weighted_sum(used, call.source.values), Alignment(scores, weights))


SPARSEMAX = SparsemaxKernel()


def _product_shapes(q: Tensor, k: Tensor, values: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    N, T = q.shape[:2]
    return q.new_empty(N, T, values.shape[-1]), q.new_empty(N, T, k.shape[1])


rows_operator = operator(
    "sparsemax",
    "Tensor scores",
    "Tensor",
    of="scores",
    shapes=lambda scores: scores.new_empty(scores.shape),
    saves=lambda inputs, output: (output,),
    kept="Tensor weights",
    cpu=("sparsemax.sparsemax_cpu.forward", "sparsemax.sparsemax_cpu.backward"),
    cuda=("sparsemax.sparsemax_cuda.forward", "sparsemax.sparsemax_cuda.backward"),
)
product_operator = operator(
    "sparsemax_product",
    "Tensor q, Tensor k, Tensor values, Tensor? hidden, float scale",
    "(Tensor, Tensor)",
    of="q k values",
    shapes=_product_shapes,
    saves=lambda inputs, output: (*inputs[:3], output[1], inputs[4]),
    kept="Tensor q, Tensor k, Tensor values, Tensor weights, float scale",
    cpu=("sparsemax.sparsemax_cpu.product", "sparsemax.sparsemax_cpu.product_backward"),
    cuda=("sparsemax.sparsemax_cuda.product", "sparsemax.sparsemax_cuda.product_backward"),
)
RUNS = ("sparsemax.sparsemax_attention.forward", "sparsemax.sparsemax_attention.backward")
long_operator = operator(
    "sparsemax_long",
    Products,
    "Tensor",
    of="q k values",
    shapes=lambda given: given.values.new_empty(*given.q.shape[:2], given.values.shape[-1]),
    cpu=RUNS,
    cuda=RUNS,
)


def rows(scores: Tensor) -> Tensor:
    """(..., S) -> weights. Outside compiled graphs this bypasses the registered operator."""
    if scores.dtype is not torch.float32:  # a score with float64 weights; the kernels are float32 only
        return Sparsemax()(scores)
    if torch.compiler.is_compiling():
        return rows_operator(scores.contiguous())
    if not (scores.requires_grad and torch.is_grad_enabled()):
        return (sparsemax_cuda if scores.is_cuda else sparsemax_cpu).forward(scores)
    return _Rows.apply(scores)  # type: ignore[no-untyped-call]


def _is_product(call: Call) -> bool:
    """Whether this call has product scores and can run in one call of its own."""
    plain = call.form_type is Product and call.dropout == 0 and _has_no_window(call)
    return plain and refuses_dtypes(call) is None


def _has_no_window(call: Call) -> bool:
    return call.window is None or is_own(call.window, Everywhere)


def _is_additive(call: Call) -> bool:
    """Whether the additive kernel for many queries computes the scores; not available in compiled graphs."""
    if call.query.shape[-2] <= STEP or torch.compiler.is_compiling() or 0 in call.query.shape:
        return False
    plain = call.form_type is Additive and call.dropout == 0 and _has_no_window(call)
    fits = call.query.is_cpu or call.source.S <= WIDEST
    return plain and fits and refuses_additive(call) is None


def _additive(call: Call) -> Tensor:
    """The context, in blocks of rows, on CPU or GPU."""
    if call.query.is_cpu:
        return additive_cpu.attended(operands(call), additive_cpu.SPARSEMAX)
    arguments = additive_cuda.arguments(call)
    with no_autocast(call.query):
        return additive_cuda.attended(*arguments, normalizer=additive_launch.SPARSEMAX)


def _product(call: Call) -> Tensor:
    """The context. In short calls host overhead dominates, so reshaping and casting are skipped if no-ops."""
    (query, keys, scale), values = product(call), call.source.values
    if _is_long(call, query, keys):
        with no_autocast(query):
            return restored(long_operator(*products_of(call)), call).to(values.dtype)
    hidden = hidden_pairs(call, max(query.ndim, keys.ndim, values.ndim))
    alike = query.dtype is keys.dtype is values.dtype
    if alike and (query.is_cuda or query.dtype is torch.float32) and _are_rows(query, keys, values):
        hidden = hidden[None] if hidden is not None and hidden.ndim == 2 else hidden
        if is_lowered(query):
            with no_autocast(query):
                return _of_rows(query, keys, values, hidden, scale)
        return _of_rows(query, keys, values, hidden, scale)
    lead = leading(query, keys, values)
    hidden = None if hidden is None else flat(hidden, lead)
    q, k, v = flattened(lead, query, keys, values)
    with no_autocast(query):
        context = _of_rows(q, k, v, hidden, scale)
    return context.reshape(*lead, *context.shape[-2:]).to(values.dtype)


def _is_long(call: Call, query: Tensor, keys: Tensor) -> bool:
    """Whether there are more weights than may be saved, and more than one query."""
    most = (sparsemax_cuda if query.is_cuda else sparsemax_cpu).KEPT
    T = query.shape[-2]
    if T == 1 or query.numel() * keys.numel() <= most:  # a cheap upper bound on the pairs
        return False
    tensors = query, keys, call.source.values
    pairs = prod(leading(*tensors)) * T * keys.shape[-2]
    return pairs > most and refuses_facts(call.source.mask, *tensors) is None


def forward(given: Products) -> Tensor:
    """The context (N, T, Dv), block by block."""
    own = sparsemax_cuda if given.q.is_cuda else sparsemax_cpu
    context = given.values.new_empty(*given.q.shape[:2], given.values.shape[-1])
    for block, part in parts(given, own.PAIRS):
        context[block] = own.product(*part)[0]
    return context


def backward(grad: Tensor, given: Products) -> tuple[Tensor, ...]:
    """Gradients of q, k and the values, accumulated in float32; recomputes the weights."""
    own: Any = sparsemax_cuda if grad.is_cuda else sparsemax_cpu
    exact = {"multiplied": full_product} if grad.is_cuda else {}
    of_q, of_k, of_values = (x.new_zeros(x.shape, dtype=torch.float32) for x in given[:3])
    for block, part in parts(given, own.PAIRS):
        q, k, values, _, scale = part
        slopes = own.product_backward(grad[block], q, k, values, own.weigh(*part), scale, **exact)
        of_q[block].add_(slopes[0])
        of_k[block.items].add_(slopes[1])
        of_values[block.items].add_(slopes[2])
    return tuple(x.to(grad.dtype) for x in (of_q, of_k, of_values))  # all inputs have one dtype


def _are_rows(query: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether the shapes are (N, T, D), (N, S, D), (N, S, Dv), as the loops expect."""
    shape, other, last = query.shape, keys.shape, values.shape
    return len(shape) == len(other) == len(last) == 3 and shape[0] == other[0] == last[0]


def _of_rows(q: Tensor, k: Tensor, values: Tensor, hidden: Tensor | None, scale: float) -> Tensor:
    if torch.compiler.is_compiling():
        context: Tensor = product_operator(q, k, values, hidden, scale)[0]
        return context
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or values.requires_grad):
        return _Product.apply(q, k, values, hidden, scale)  # type: ignore[no-untyped-call]
    return (sparsemax_cuda if q.is_cuda else sparsemax_cpu).product(q, k, values, hidden, scale)[0]


class _Rows(torch.autograd.Function):
    """The operator regard::sparsemax."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = (sparsemax_cuda if scores.is_cuda else sparsemax_cpu).forward(scores)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once
    def backward(ctx: Any, saved: tuple[Tensor, ...], grad: Tensor) -> Tensor:
        return (sparsemax_cuda if grad.is_cuda else sparsemax_cpu).backward(grad, *saved)


class _Product(torch.autograd.Function):
    """The operator regard::sparsemax_product."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, values: Tensor, hidden: Tensor | None, scale: float
    ) -> Tensor:
        own = sparsemax_cuda if q.is_cuda else sparsemax_cpu
        context, weights = own.product(q, k, values, hidden, scale)
        ctx.save_for_backward(q, k, values, weights)
        ctx.scale = scale
        return context

    @staticmethod
    @once
    def backward(ctx: Any, saved: tuple[Any, ...], grad: Tensor) -> tuple[Tensor | None, ...]:
        given: tuple[Any, ...] = (grad, *saved, ctx.scale)
        if grad.is_cpu and not is_lowered(grad):
            return (*sparsemax_cpu.product_backward(*given), None, None)
        with no_autocast(grad):  # backward may be called under autocast
            if grad.is_cuda:
                found = sparsemax_cuda.product_backward(*(*given, ctx.needs_input_grad))
            else:
                found = sparsemax_cpu.product_backward(*given)
        return (*found, None, None)

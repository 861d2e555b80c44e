"""Product scores for kernels that normalise rows themselves, in blocks of rows: memory is bounded."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.dispatch import Call
from regard.attention.numerics import HALF, upcast
from regard.kernels.additive.additive_operands import Block, blocks, facts, visible
from regard.kernels.product.products import product
from regard.kernels.shapes import flat, leading


class Products(NamedTuple):
    """Queries, their sources and the mask; the score is scale · q · k."""

    q: Tensor  # (N, T, D)
    k: Tensor  # (N, S, D)
    values: Tensor  # (N, S, Dv), all in one dtype
    lengths: Tensor | None  # the mask, as in additive_operands.Operands
    dense: Tensor | None
    left: int | None
    right: int | None
    offset: int
    scale: float


Part = tuple[Tensor, Tensor, Tensor, Tensor | None, float]  # q, k, values, what is hidden, scale


def products_of(call: Call) -> Products:
    """The operands of a call, with the leading axes flattened."""
    form, values = product(call), call.source.values
    lead = leading(form.query, form.keys, values)
    q, k, v = flattened(lead, form.query, form.keys, values)
    return Products(q, k, v, *facts(call, lead)[:5], form.scale)


def flattened(lead: tuple[int, ...], *tensors: Tensor) -> tuple[Tensor, ...]:
    """(..., T, D) -> (N, T, D), in one dtype; on a CPU in float32, for the compiled loops."""
    first = tensors[0]
    widen = first.is_cpu or any(x.dtype is not first.dtype for x in tensors)
    return tuple(flat(upcast(x) if widen else x, lead) for x in tensors)


def parts(given: Products, pairs: int) -> Iterator[tuple[Block, Part]]:
    """Blocks of at most `pairs` pairs of query and key, with their tensors."""
    q, k, values = given[:3]
    (N, T), S = q.shape[:2], k.shape[1]
    for block in blocks(N, T, S, pairs, 1):
        shown = visible(k, given[3:], block)
        hidden = None if shown is None else ~shown
        yield block, (q[block], k[block.items], values[block.items], hidden, given.scale)


def full_product(x: Tensor, y: Tensor) -> Tensor:
    """x @ y, accumulated and returned in float32."""
    if x.is_cuda and x.dtype in HALF and x.dtype == y.dtype:
        return torch.bmm(x, y, out_dtype=torch.float32)
    return torch.bmm(x.float(), y.float())

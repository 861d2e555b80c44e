"""Scores that are a product on PyTorch's own fused attention.

    softmax(scale · q kᵀ + mask) v in one kernel, without the T × S weights in memory

The mask is passed in the cheapest form that expresses it:

    nothing hidden, causal     PyTorch's kernel as it is, and its flag, which hides s > t also if T ≠ S
    lengths, a dense row       (B, 1, 1, S) added to the scores
    causal and a row           both, on a CPU; on a GPU in pieces
    causal at an offset        keys before it are visible to all queries, the others as above: two calls,
                               joined by their log-sum-exps (causal_offset.py); one query needs no mask
    the last two on a GPU      a T × S mask, if it has fewer than LARGE elements. In half precision PyTorch's
                               kernel for it is faster than the one for the pieces
    a dense mask for each row  as it is
    one query on a GPU         in float32 two products and a softmax. PyTorch's kernel computes the gradient
                               of a score as the difference of two sums, each rounded separately; if a query
                               sees one key, it should be zero

A window of the mask is a band, which local_attention.py computes; if requested by name, this kernel builds a
T × S mask for it.

In short calls host overhead dominates, so the most common cases are checked first.
"""

from dataclasses import replace
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.dispatch import Call, Kernel
from regard.attention.forms import Product
from regard.attention.mask import Mask
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import HALF, is_lowered, no_autocast
from regard.catalog import card
from regard.kernels.product.causal_offset import causal_offset_operator
from regard.kernels.product.products import (
    HALF_OR_SINGLE,
    bias_of,
    half_product,
    has_rows,
    padded,
    refuses_dtypes,
    row_mask,
)
from regard.kernels.shapes import four_axes, leading, side_by_side

LARGE = 2**24  # elements of a T × S mask from which a GPU avoids it
TILE, HALF_TILE = 128, 64  # keys per tile of cuDNN's backward kernel; see _guarded


@card(
    "kernel",
    "sdpa",
    title="Fused dot-product attention",
    authors="PyTorch",
    year=2023,
    link="https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
    sentence="Product scores on PyTorch's fused kernels; masks are passed in their simplest form.",
)
class ScaledDotKernel(Kernel):
    """torch.nn.functional.scaled_dot_product_attention."""

    name = "sdpa"
    forms = (Product,)
    normalizers = (Softmax,)
    drops = exports = True

    def refuses(self, call: Call) -> str | None:
        return refuses_dtypes(call)

    def run(self, call: Call) -> Tensor:
        (query, keys, scale), values = half_product(call), call.source.values
        assert isinstance(call.normalizer, Softmax)
        scale /= call.normalizer.temperature
        if is_lowered(query):
            with no_autocast(query):
                return _in_one_dtype(query, keys, values, call, scale)
        if query.dtype is not keys.dtype or query.dtype is not values.dtype:
            return _in_one_dtype(query, keys, values, call, scale)
        return _attend(query, keys, values, call, scale)


SDPA = ScaledDotKernel()


def _in_one_dtype(query: Tensor, keys: Tensor, values: Tensor, call: Call, scale: float) -> Tensor:
    """The context, computed in the widest of the three dtypes."""
    wide = torch.promote_types(torch.promote_types(query.dtype, keys.dtype), values.dtype)
    return _attend(query.to(wide), keys.to(wide), values.to(wide), call, scale).to(values.dtype)


def _attend(query: Tensor, keys: Tensor, values: Tensor, call: Call, scale: float) -> Tensor:
    """The context, by the cheapest route that the mask allows."""
    mask = call.source.mask
    if query.is_cuda and query.shape[-2] == 1 and query.dtype is torch.float32:
        return _by_products(query, keys, values, mask, call.dropout, scale)
    if mask.lengths is None and mask.dense is None and mask.window is None:
        if not mask.causal:
            if _leaves_half_a_tile(query, keys, values):
                shown = torch.ones(1, keys.shape[-2], dtype=torch.bool, device=keys.device)
                return _with_mask(query, keys, values, shown, call.dropout, scale)
            return _by_flag(query, keys, values, False, call.dropout, scale)
        if mask.offset == 0 and not torch.compiler.is_exporting():
            seen = query.shape[-2]
            if keys.shape[-2] > seen:  # keys after the last query are hidden from all
                keys, values = keys[..., :seen, :], values[..., :seen, :]
            return _by_flag(query, keys, values, True, call.dropout, scale)
    if _needs_a_mask(call, query):
        return _by_mask(query, keys, values, call, scale)
    return _by_facts(query, keys, values, mask, scale)


def _by_flag(
    query: Tensor, keys: Tensor, values: Tensor, causal: bool, dropout: float, scale: float
) -> Tensor:
    """No mask, or causality alone: PyTorch's kernel, without reshaping if the shapes fit."""
    fit = _fit(query, keys, values)
    if fit and query.ndim == 4:
        return F.scaled_dot_product_attention(
            query, keys, values, is_causal=causal, dropout_p=dropout, scale=scale
        )
    if fit:
        q, k, v = query.unsqueeze(1), keys.unsqueeze(1), values.unsqueeze(1)
        one = F.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=dropout, scale=scale)
        return one.squeeze(1)
    lead = leading(query, keys, values)
    q, k, v = _fitted(query, keys, values, lead)
    context = F.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=dropout, scale=scale)
    return _restored(context, lead, values.shape[-1])


def _by_products(
    query: Tensor, keys: Tensor, values: Tensor, mask: Mask, dropout: float, scale: float
) -> Tensor:
    """One query, whose weights are no larger than one feature of the keys."""
    S = keys.shape[-2]
    scores = (query * scale) @ keys.mT  # (..., 1, S)
    shown = None
    if not _shows_all(mask, S):
        shown = mask.to_dense(1, S, ndim=query.ndim, device=query.device)
    if shown is None:
        weights = scores.softmax(-1)
    else:  # finite, so that a row that sees nothing is not NaN before it is zeroed
        hidden = ~shown
        weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1)
        weights = weights.masked_fill(hidden, 0.0)
    return (torch.dropout(weights, dropout, train=True) if dropout else weights) @ values


def _shows_all(mask: Mask, S: int) -> bool:
    """Whether the mask hides nothing from one query, such as causality in a step with a cache."""
    facts = mask.lengths is not None or mask.dense is not None or mask.window is not None
    return not facts and (not mask.causal or mask.offset + 1 >= S)


def _needs_a_mask(call: Call, query: Tensor) -> bool:
    """Whether to pass a dense mask: PyTorch's kernels do not support the call otherwise, or it is cheaper."""
    mask = call.source.mask
    return (
        torch.compiler.is_exporting()  # no branches on sizes
        or query.dtype not in HALF_OR_SINGLE
        or query.device.type not in ("cpu", "cuda")
        or call.dropout > 0
        or mask.window is not None
        or has_rows(mask)
        or mask.offset < 0
        or 0 in (query.shape[-2], call.source.S)
        or (query.is_cuda and _is_causal(mask, query.shape[-2], call.source.S) and _is_small(call))
    )


def _is_small(call: Call) -> bool:
    """Whether a T × S mask for this call is cheaper than avoiding it."""
    mask = call.source.mask
    rows = 1 if mask.lengths is None else mask.lengths.shape[0]
    rows = rows if mask.dense is None else max(rows, prod(mask.dense.shape[:-2]))
    return rows * call.query.shape[-2] * call.source.S < LARGE


def _is_causal(mask: Mask, T: int, S: int) -> bool:
    """Whether causality hides something from some query; in a decoder's step, with one query, it does not."""
    return mask.causal and T > 1 and mask.offset + 1 < S


def _by_mask(query: Tensor, keys: Tensor, values: Tensor, call: Call, scale: float) -> Tensor:
    """Any mask, as a tensor no larger than necessary."""
    T, S = query.shape[-2], keys.shape[-2]
    dense = call.source.mask.to_dense(T, S, ndim=query.ndim, device=query.device)
    if dense is not None and dense.ndim < 2:
        dense = dense[None]
    return _with_mask(query, keys, values, dense, call.dropout, scale)


def _with_mask(
    query: Tensor, keys: Tensor, values: Tensor, dense: Tensor | None, dropout: float, scale: float
) -> Tensor:
    """The call with a head axis added, which fused kernels require."""
    if query.is_cuda and query.ndim == keys.ndim == values.ndim == 3:
        dense = dense if dense is None or dense.ndim < 3 else dense.unsqueeze(1)
        q, k, v = query.unsqueeze(1), keys.unsqueeze(1), values.unsqueeze(1)
        return _masked(q, k, v, dense, dropout, scale).squeeze(1)
    return _masked(query, keys, values, dense, dropout, scale)


def _leaves_half_a_tile(query: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether cuDNN's backward pass would get the half tile that `_guarded` pads."""
    return (
        query.is_cuda
        and query.dtype in HALF
        and keys.shape[-2] % TILE == HALF_TILE
        and torch.is_grad_enabled()
        and (query.requires_grad or keys.requires_grad or values.requires_grad)
    )


def _masked(
    query: Tensor, keys: Tensor, values: Tensor, shown: Tensor | None, dropout: float, scale: float
) -> Tensor:
    """PyTorch's function with a mask."""
    if 0 in (query.shape[-2], keys.shape[-2]):  # if empty, the result has only the query's leading axes
        query = query.expand(*leading(query, keys, values), *query.shape[-2:])
    if shown is not None and query.is_cuda and query.dtype in HALF:
        return _guarded(query, keys, values, shown, dropout, scale)
    return F.scaled_dot_product_attention(
        query, keys, values, attn_mask=shown, dropout_p=dropout, scale=scale
    )


def _guarded(
    query: Tensor, keys: Tensor, values: Tensor, shown: Tensor, dropout: float, scale: float
) -> Tensor:
    """The same where PyTorch may choose cuDNN, which needs two workarounds.

    In some versions hidden scores become a large finite number, so that a row that sees nothing attends to
    everything; and if the last tile of keys is half full, the backward pass returns NaN for rows whose scores
    are all below -88 (https://github.com/pytorch/pytorch/issues/177842 and 196678).
    """
    S = keys.shape[-2]
    nothing = ~shown.any(-1, keepdim=True)
    if S % TILE == HALF_TILE:
        keys, values = (F.pad(x, (0, 0, 0, HALF_TILE)) for x in (keys, values))
        shown = F.pad(shown.expand(*shown.shape[:-1], S), (0, HALF_TILE))
    context = F.scaled_dot_product_attention(
        query, keys, values, attn_mask=shown, dropout_p=dropout, scale=scale
    )
    return context.masked_fill(nothing, 0.0)


def _by_facts(query: Tensor, keys: Tensor, values: Tensor, mask: Mask, scale: float) -> Tensor:
    """Lengths and a dense row as one row; causality, if any, by the flag or in pieces."""
    T, lead, Dv = query.shape[-2], leading(query, keys, values), values.shape[-1]
    causal = _is_causal(mask, T, keys.shape[-2])
    if mask.causal and keys.shape[-2] > T + mask.offset:  # keys after the last query are hidden from all
        seen = T + mask.offset
        keys, values = keys[..., :seen, :], values[..., :seen, :]
        if mask.dense is not None and mask.dense.shape[-1] > 1:
            mask = replace(mask, dense=mask.dense[..., :seen])
    visible = row_mask(mask, lead, keys.shape[-2], query.device)
    fit = query.ndim == 4 and _fit(query, keys, values) and not causal  # the others require equal widths
    q, k, v = (query, keys, values) if fit else _fitted(query, keys, values, lead)
    if not causal:
        context = _masked(q, k, v, visible, 0.0, scale)
    elif mask.offset or q.is_cuda:
        context, _ = causal_offset_operator(q, k, v, bias_of(visible, q.dtype), mask.offset, scale)
    else:  # the public function takes a mask or the flag
        context, _ = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, True, attn_mask=bias_of(visible, q.dtype), scale=scale
        )
    return _restored(context, lead, Dv)


def _fit(query: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether they fit PyTorch's kernels: (B, [H,] T, D), rows contiguous, on a CPU with equal widths."""
    shape, other, last = query.shape, keys.shape, values.shape
    return (
        len(shape) in (3, 4)
        and shape[:-2] == other[:-2] == last[:-2]
        and (other[-1] == last[-1] or query.is_cuda)
        and query.stride(-1) == keys.stride(-1) == values.stride(-1) == 1
    )


def _fitted(query: Tensor, keys: Tensor, values: Tensor, lead: tuple[int, ...]) -> tuple[Tensor, ...]:
    """All as (B, H, T, D) for the kernels; the narrower of keys and values is zero-padded."""
    width = max(keys.shape[-1], values.shape[-1])
    parts = (four_axes(x, lead) for x in (query, keys, values))
    return tuple(side_by_side(padded(x, width)) for x in parts)


def _restored(context: Tensor, lead: tuple[int, ...], Dv: int) -> Tensor:
    """(B, H, T, D) -> (..., T, Dv)."""
    if context.shape[-1] != Dv:
        context = context[..., :Dv]
    if len(lead) == 2:
        return context
    return context.squeeze(1) if len(lead) == 1 else context.reshape(*lead, *context.shape[-2:])

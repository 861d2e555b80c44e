"""Scores that are a product on PyTorch's own fused attention.

    softmax(scale · q kᵀ + mask) v in one kernel, without the T × S weights in memory

The mask is passed as the facts that it is:

    nothing hidden, causal     PyTorch's kernel as it is, and its flag, which hides s > t also where T ≠ S
    lengths, a dense row       (B, 1, 1, S) added to the scores
    causal and a row           both, on a CPU; on a GPU in pieces
    causal at an offset        keys before it are seen by all queries, the others as above: two calls, joined
                               by their log-sum-exps (causal_offset.py); one query needs no mask at all
    the last two on a GPU      as a mask of all pairs as long as that has fewer than LARGE numbers. In half
                               precision PyTorch has a faster kernel for it than for the pieces
    a dense mask for each row  as it is
    one query on a GPU         in float32 the two products and the softmax. PyTorch's kernel takes the slope
                               of a score from the difference of two sums, each rounded by itself; where a
                               query sees one key it should be nothing

A window of the mask is a band, which local_attention.py computes. Asked for by name, this kernel builds its
T × S mask.

A short call costs as much as what stands around it, so the commonest calls are let through first.
"""

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

LARGE = 2**24  # numbers of a mask for all pairs that a GPU does without
TILE, HALF_TILE = 128, 64  # keys of cuDNN's backward kernel; see _masked


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
    """All in the widest precision among them."""
    wide = torch.promote_types(torch.promote_types(query.dtype, keys.dtype), values.dtype)
    return _attend(query.to(wide), keys.to(wide), values.to(wide), call, scale).to(values.dtype)


def _attend(query: Tensor, keys: Tensor, values: Tensor, call: Call, scale: float) -> Tensor:
    """The context, by the least that the mask asks for."""
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
            if keys.shape[-2] > seen:  # no query sees what comes after the last
                keys, values = keys[..., :seen, :], values[..., :seen, :]
            return _by_flag(query, keys, values, True, call.dropout, scale)
    if _needs_a_mask(call, query):
        return _by_mask(query, keys, values, call, scale)
    return _by_facts(query, keys, values, mask, scale)


def _by_flag(
    query: Tensor, keys: Tensor, values: Tensor, causal: bool, dropout: float, scale: float
) -> Tensor:
    """Everything is visible, or what is not later: the kernel itself, and nothing around it if they fit."""
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
    """One query, whose weights are no more numbers than a feature of the keys has."""
    S = keys.shape[-2]
    scores = (query * scale) @ keys.mT  # (..., 1, S)
    shown = None
    if not _shows_all(mask, S):
        shown = mask.to_dense(1, S, ndim=query.ndim, device=query.device)
    if shown is None:
        weights = scores.softmax(-1)
    else:  # a finite number, so that a row of nothing is no row of NaN before it is made zero
        hidden = ~shown
        weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1)
        weights = weights.masked_fill(hidden, 0.0)
    return (torch.dropout(weights, dropout, train=True) if dropout else weights) @ values


def _shows_all(mask: Mask, S: int) -> bool:
    """To one query: nothing else than causality is there, and it hides nothing, as in a step with a cache."""
    facts = mask.lengths is not None or mask.dense is not None or mask.window is not None
    return not facts and (not mask.causal or mask.offset + 1 >= S)


def _needs_a_mask(call: Call, query: Tensor) -> bool:
    """What the kernels inside PyTorch do not take goes to its formula, or has a T × S mask anyway."""
    mask = call.source.mask
    return (
        torch.compiler.is_exporting()  # nothing may depend on sizes
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
    """A mask for all pairs of this call is cheaper than doing without."""
    mask = call.source.mask
    rows = 1 if mask.lengths is None else mask.lengths.shape[0]
    rows = rows if mask.dense is None else max(rows, prod(mask.dense.shape[:-2]))
    return rows * call.query.shape[-2] * call.source.S < LARGE


def _is_causal(mask: Mask, T: int, S: int) -> bool:
    """Some query sees less than the last one does. Of a decoder's step, one query, there is none."""
    return mask.causal and T > 1 and mask.offset + 1 < S


def _by_mask(query: Tensor, keys: Tensor, values: Tensor, call: Call, scale: float) -> Tensor:
    """Any mask, as a tensor no larger than it need be."""
    T, S = query.shape[-2], keys.shape[-2]
    dense = call.source.mask.to_dense(T, S, ndim=query.ndim, device=query.device)
    if dense is not None and dense.ndim < 2:
        dense = dense[None]
    return _with_mask(query, keys, values, dense, call.dropout, scale)


def _with_mask(
    query: Tensor, keys: Tensor, values: Tensor, dense: Tensor | None, dropout: float, scale: float
) -> Tensor:
    """The call with an axis of heads, which a fused kernel wants."""
    if query.is_cuda and query.ndim == keys.ndim == values.ndim == 3:
        dense = dense if dense is None or dense.ndim < 3 else dense.unsqueeze(1)
        q, k, v = query.unsqueeze(1), keys.unsqueeze(1), values.unsqueeze(1)
        return _masked(q, k, v, dense, dropout, scale).squeeze(1)
    return _masked(query, keys, values, dense, dropout, scale)


def _leaves_half_a_tile(query: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether cuDNN's backward pass would meet the tile that `_guarded` fills up."""
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
    if 0 in (query.shape[-2], keys.shape[-2]):  # of nothing it gives as many rows as the query has
        query = query.expand(*leading(query, keys, values), *query.shape[-2:])
    if shown is not None and query.is_cuda and query.dtype in HALF:
        return _guarded(query, keys, values, shown, dropout, scale)
    return F.scaled_dot_product_attention(
        query, keys, values, attn_mask=shown, dropout_p=dropout, scale=scale
    )


def _guarded(
    query: Tensor, keys: Tensor, values: Tensor, shown: Tensor, dropout: float, scale: float
) -> Tensor:
    """The same where it may take cuDNN, which needs two guards.

    Hidden scores become a large finite number there in some versions, so that a row of nothing sees all; and
    where the last tile of keys is half full, its backward pass makes NaN of rows whose scores are all below
    -88 (https://github.com/pytorch/pytorch/issues/177842 and 196678).
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
    """Lengths and a dense row as a row; causality beside them by a flag, or in pieces."""
    T, lead, Dv = query.shape[-2], leading(query, keys, values), values.shape[-1]
    causal = _is_causal(mask, T, keys.shape[-2])
    if mask.causal and keys.shape[-2] > T + mask.offset:  # no query sees what comes after the last
        seen = T + mask.offset
        keys, values = keys[..., :seen, :], values[..., :seen, :]
        mask = _first(mask, seen)
    visible = row_mask(mask, lead, keys.shape[-2], query.device)
    fit = query.ndim == 4 and _fit(query, keys, values) and not causal  # the others want all of one width
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


def _first(mask: Mask, seen: int) -> Mask:
    """The mask of the first positions of the source alone."""
    dense = mask.dense
    if dense is not None and dense.shape[-1] > 1:
        dense = dense[..., :seen]
    return Mask(causal=mask.causal, lengths=mask.lengths, dense=dense, offset=mask.offset)


def _fit(query: Tensor, keys: Tensor, values: Tensor) -> bool:
    """As PyTorch's kernels want them: (B, [H,] T, D), each row in one piece, on a CPU all of one width."""
    shape, other, last = query.shape, keys.shape, values.shape
    return (
        len(shape) in (3, 4)
        and shape[:-2] == other[:-2] == last[:-2]
        and (other[-1] == last[-1] or query.is_cuda)
        and query.stride(-1) == keys.stride(-1) == values.stride(-1) == 1
    )


def _fitted(query: Tensor, keys: Tensor, values: Tensor, lead: tuple[int, ...]) -> tuple[Tensor, ...]:
    """(B, H, T, D) each, as the kernels want them; values narrower than keys are filled up with zeros."""
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

"""Dot, scaled dot, general, cosine and feed-forward scores on PyTorch's own fused attention.

    softmax(scale · q kᵀ + mask) v in one kernel, without the T × S weights in memory

Equal to the reference because each of these scores is a plain product once the source is prepared
(products.py). The mask is passed as the facts that it is:

    nothing hidden, causal     PyTorch's kernel as it is, and its flag, which hides s > t also where T ≠ S
    lengths, a dense row       (B, 1, 1, S) added to the scores
    causal and a row           both, on a CPU; on a GPU in pieces
    causal at an offset        keys before it are seen by all queries, the others as above: two calls, joined
                               by their log-sum-exps (pieces.py); one query needs no mask at all
    a dense mask for each row  as it is

A window of the mask is a band: local.py computes it. Asked for by name, this kernel builds its T × S mask.

A short call costs as much as what stands around it, so the commonest calls are let through first.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.mask import Mask
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import exact
from regard.kernels import ops
from regard.kernels.dispatch import Call
from regard.kernels.products import (
    HALF_OR_SINGLE,
    bias_of,
    four_axes,
    has_rows,
    leading,
    padded,
    product_form,
    refuses_product,
    refuses_softmax,
    refuses_window,
    row_mask,
)

IN_PIECES = ("cpu",)  # devices on which all tests of pieces.py have passed; elsewhere a mask tells its facts


class ScaledDotKernel:
    """torch.nn.functional.scaled_dot_product_attention."""

    name = "sdpa"

    def refuses(self, call: Call) -> str | None:
        return refuses_product(call) or refuses_softmax(call) or refuses_window(call)

    def run(self, call: Call) -> Tensor:
        query, scale = product_form(call)
        keys, values = call.source.keys, call.source.values
        assert isinstance(call.normalizer, Softmax)
        scale /= call.normalizer.temperature
        if torch.is_autocast_enabled(query.device.type):
            with exact(query):
                return _in_dtype_of_values(query, keys, values, call, scale)
        if query.dtype is not keys.dtype or query.dtype is not values.dtype:
            return _in_dtype_of_values(query, keys, values, call, scale)
        return _attend(query, keys, values, call, scale)


SDPA = ScaledDotKernel()


def _in_dtype_of_values(query: Tensor, keys: Tensor, values: Tensor, call: Call, scale: float) -> Tensor:
    """Cosine's query is in full precision, whatever keys and values are."""
    context = _attend(query, keys.to(query.dtype), values.to(query.dtype), call, scale)
    return context.to(values.dtype)


def _attend(query: Tensor, keys: Tensor, values: Tensor, call: Call, scale: float) -> Tensor:
    """The context, by the least that the mask asks for."""
    mask = call.source.mask
    if mask.lengths is None and mask.dense is None and mask.window is None:
        if not mask.causal:
            return _by_flag(query, keys, values, False, call.dropout, scale)
        if mask.offset == 0:
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


def _needs_a_mask(call: Call, query: Tensor) -> bool:
    """What the kernels inside PyTorch do not take goes to its formula, or has a T × S mask anyway."""
    mask = call.source.mask
    return (
        query.dtype not in HALF_OR_SINGLE
        or query.device.type not in ("cpu", "cuda")
        or call.dropout > 0
        or mask.window is not None
        or has_rows(mask)
        or mask.offset < 0
        or 0 in (query.shape[-2], call.source.S)
        or (query.device.type not in IN_PIECES and _is_causal(mask, query.shape[-2], call.source.S))
    )


def _is_causal(mask: Mask, T: int, S: int) -> bool:
    """Some query sees less than the last one does. Of a decoder's step, one query, there is none."""
    return mask.causal and T > 1 and mask.offset + 1 < S


def _by_mask(query: Tensor, keys: Tensor, values: Tensor, call: Call, scale: float) -> Tensor:
    """Any mask, as a tensor no larger than it need be."""
    T, S = query.shape[-2], keys.shape[-2]
    dense = call.source.mask.to_dense(T, S, ndim=query.ndim, device=query.device)
    if dense is not None and dense.ndim < 2:
        dense = dense[None]
    return F.scaled_dot_product_attention(
        query, keys, values, attn_mask=dense, dropout_p=call.dropout, scale=scale
    )


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
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, scale=scale)
    elif mask.offset or q.is_cuda:
        context, _ = ops.pieces(q, k, v, bias_of(visible, q.dtype), mask.offset, scale)
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
    return tuple(_rows_together(padded(x, width)) for x in parts)


def _restored(context: Tensor, lead: tuple[int, ...], Dv: int) -> Tensor:
    """(B, H, T, D) -> (..., T, Dv)."""
    if context.shape[-1] != Dv:
        context = context[..., :Dv]
    if len(lead) == 2:
        return context
    return context.squeeze(1) if len(lead) == 1 else context.reshape(*lead, *context.shape[-2:])


def _rows_together(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()

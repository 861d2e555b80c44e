"""Dot, scaled dot, general, cosine and feed-forward scores on PyTorch's own fused attention.

    softmax(scale · q kᵀ + mask) v in one kernel, without the T × S weights in memory

Equal to the reference because each of these scores is a plain product once the source is prepared
(products.py). The mask is passed as the facts that it is:

    lengths, a dense row       (B, 1, 1, S) added to the scores
    causal                     the kernel's flag, which hides s > t also where T ≠ S
    causal at an offset        keys before it are seen by all queries, the others as above: two calls, joined
                               by their log-sum-exps (pieces.py); one query needs no mask at all
    a dense mask for each row  as it is

A window of the mask is a band: local.py computes it. Asked for by name, this kernel builds its T × S mask.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.mask import Mask
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import exact
from regard.kernels import ops
from regard.kernels.dispatch import Call, Fused
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


class ScaledDotKernel:
    """torch.nn.functional.scaled_dot_product_attention."""

    name = "sdpa"

    def refuses(self, call: Call) -> str | None:
        return refuses_product(call) or refuses_softmax(call) or refuses_window(call)

    def run(self, call: Call) -> Fused:
        query, scale = product_form(call)
        values = call.source.values
        assert isinstance(call.normalizer, Softmax)
        with exact(query):
            keys, mixed = call.source.keys.to(query.dtype), values.to(query.dtype)
            scale = scale / call.normalizer.temperature
            if _is_plain(call, query):
                context, lse = _by_mask(query, keys, mixed, call, scale), None
            else:
                context, lse = _by_facts(query, keys, mixed, call.source.mask, scale)
        return Fused(context.to(values.dtype), lse)


SDPA = ScaledDotKernel()


def _is_plain(call: Call, query: Tensor) -> bool:
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
        or (query.is_cuda and _is_in_pieces(mask))
    )


def _is_in_pieces(mask: Mask) -> bool:
    """Causality beside other facts. On a GPU not all tests of pieces.py have passed yet: a mask tells it."""
    return mask.causal and (mask.offset != 0 or mask.lengths is not None or mask.dense is not None)


def _by_mask(query: Tensor, keys: Tensor, values: Tensor, call: Call, scale: float) -> Tensor:
    """Any mask, as a tensor no larger than it need be."""
    mask = call.source.mask
    T, S = query.shape[-2], keys.shape[-2]
    alone = mask.window is None and mask.lengths is None and mask.dense is None
    causal = mask.causal and alone and mask.offset == 0
    dense = None if causal else mask.to_dense(T, S, ndim=query.ndim, device=query.device)
    if dense is not None and dense.ndim < 2:
        dense = dense[None]
    return F.scaled_dot_product_attention(
        query, keys, values, attn_mask=dense, is_causal=causal, dropout_p=call.dropout, scale=scale
    )


def _by_facts(
    query: Tensor, keys: Tensor, values: Tensor, mask: Mask, scale: float
) -> tuple[Tensor, Tensor | None]:
    """Context and, where the kernel has it, the log-sum-exp of the scores (..., T)."""
    T, lead = query.shape[-2], leading(query, keys, values)
    if mask.causal and keys.shape[-2] > T + mask.offset:  # no query sees what comes after the last
        seen = T + mask.offset
        keys, values = keys[..., :seen, :], values[..., :seen, :]
        mask = _first(mask, seen)
    causal = mask.causal and keys.shape[-2] > mask.offset + 1  # else the first query sees all that there is
    visible = row_mask(mask, lead, keys.shape[-2], query.device)
    q, k, v = (four_axes(x, lead) for x in (query, keys, values))
    if q.is_cuda and not (causal and (visible is not None or mask.offset)):
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, is_causal=causal, scale=scale)
        return context.reshape(*lead, *context.shape[-2:]), None
    Dv, width = v.shape[-1], max(k.shape[-1], v.shape[-1])
    q, k, v = (_rows_together(padded(x, width)) for x in (q, k, v))
    bias = bias_of(visible, q.dtype)
    if causal and (mask.offset or q.is_cuda):
        context, lse = ops.pieces(q, k, v, bias, mask.offset, scale)
    else:
        context, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, causal, attn_mask=bias, scale=scale
        )
    context = context[..., :Dv].reshape(*lead, T, Dv)
    return context, lse.detach().reshape(*lead, T)


def _first(mask: Mask, seen: int) -> Mask:
    """The mask of the first positions of the source alone."""
    dense = mask.dense
    if dense is not None and dense.shape[-1] > 1:
        dense = dense[..., :seen]
    return Mask(causal=mask.causal, lengths=mask.lengths, dense=dense, offset=mask.offset)


def _rows_together(x: Tensor) -> Tensor:
    """The kernels read a row as one piece of memory."""
    return x if x.stride(-1) == 1 else x.contiguous()

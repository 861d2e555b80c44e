"""What the two kernels that look at a softmax of products on a GPU share: refusals and operands."""

import torch
from torch import Tensor

from regard.attention.looks import Products
from regard.kernels.compiler import triton_missing
from regard.kernels.product.products import has_rows, row_mask

WIDEST = 256  # features that a program holds


def refuses_softmax(call: Products) -> str | None:
    """Why a look at these products cannot be fused, as a clause."""
    query, keys = call.query, call.keys
    if not query.is_cuda:
        return f"the query is on {query.device.type}, this kernel is for cuda"
    if torch.is_grad_enabled() and (query.requires_grad or keys.requires_grad):
        return "gradients are wanted"
    if torch.compiler.is_compiling():
        return "a compiled graph is made"
    if query.dtype != keys.dtype or query.dtype == torch.float64:
        return "dtypes differ, or are float64"
    if query.ndim > 4 or not 0 < query.shape[-1] <= WIDEST:
        return f"more than {WIDEST} features or two leading axes"
    if call.mask.window is not None or has_rows(call.mask):
        return "the mask has a window, or something else for each query"
    return triton_missing()


def softmax_operands(call: Products) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[int, ...], bool]:
    """Query, keys (B, H, T or S, D) and row mask (B, H, S); their strides; whether there is a mask."""
    lead, S = call.query.shape[:-2], call.keys.shape[-2]
    query, keys = _four_axes(call.query, lead), _four_axes(call.keys, lead)
    shown = row_mask(call.mask, lead, S, query.device)
    if shown is None:
        return (query, keys, query), (*query.stride()[:3], *keys.stride()[:3], 0, 0), False
    seen = _bytes(shown.expand(*query.shape[:2], 1, S)[:, :, 0])
    return (query, keys, seen), (*query.stride()[:3], *keys.stride()[:3], *seen.stride()[:2]), True


def _four_axes(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """(..., T, D) -> (B, H, T, D), features in one piece."""
    x = x if x.stride(-1) == 1 else x.contiguous()
    if x.ndim == 4 and x.shape[:-2] == lead:
        return x
    x = x.expand(*lead, *x.shape[-2:])
    return x.reshape(*[1] * (4 - x.ndim), *x.shape) if x.ndim < 3 else x[:, None] if x.ndim == 3 else x


def _bytes(mask: Tensor) -> Tensor:
    """(B, H, S) 0 or 1, positions in one piece."""
    return (mask if mask.stride(-1) == 1 else mask.contiguous()).view(torch.uint8)

"""From a call of Attention to the arguments of the additive operators: one batch axis, facts for a mask.

    context = additive(a, b, v, values, lengths, dense, left, right, offset, scale)

    a       (N, T, D)    W q           leading axes flattened to N
    b       (N, S, D)    U k           the prepared keys
    v       (D,)
    values  (N, S, Dv)
    lengths (NL,)        NL divides N: item n has lengths[n // (N / NL)], so heads share their row's length
    dense   (ND, T or 1, S or 1) bool, likewise
    left, right, offset  t + offset - left <= s <= t + offset + right; None: no bound on that side
    scale   1 / temperature; 1 under sparsemax

The reference is Attention(AdditiveScore, normalizer=Softmax) with the same mask.
"""

from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.dispatch import Call
from regard.attention.forms import Additive
from regard.attention.mask import Mask
from regard.attention.normalizers.softmax import Softmax
from regard.kernels.shapes import flat, leading

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
STEP = 4  # up to this many queries the weights are as small as the scores of a step, and are kept


class Operands(NamedTuple):
    """The arguments of the additive operators, in their order."""

    a: Tensor
    b: Tensor
    v: Tensor
    values: Tensor
    lengths: Tensor | None
    dense: Tensor | None
    left: int | None
    right: int | None
    offset: int
    scale: float


def refuses_additive(call: Call) -> str | None:
    """What no additive kernel can run of what its parts allow, as a clause."""
    tensors = (call.query, call.source.keys, call.source.values)
    for x in tensors:  # loops, not generators: a decoder asks this at every step
        if x.device != tensors[0].device:
            return f"the tensors are on {', '.join(sorted({x.device.type for x in tensors}))}"
    for x in (*tensors, additive(call).v):
        if x.dtype not in DTYPES:
            return f"dtype is {x.dtype}, which goes to the reference"
    mask = call.source.mask
    if mask.lengths is None and mask.dense is None:
        return None
    return _refuses_mask(mask, leading(*tensors))


def additive(call: Call) -> Additive:
    """The form of the call."""
    form = call.form()
    assert isinstance(form, Additive)
    return form


def operands(call: Call) -> Operands:
    """Project the query, flatten the leading axes, and name the facts of the mask."""
    form, values = additive(call), call.source.values
    a = form.a
    call.seen_form = form._replace(query=a, W=None)
    lead = leading(a, form.keys, values)
    b, v = flat(form.keys, lead), form.v.squeeze(0)
    return Operands(flat(a, lead), b, v, flat(values, lead), *facts(call, lead))


Facts = tuple[Tensor | None, Tensor | None, int | None, int | None, int, float]


def facts(call: Call, lead: tuple[int, ...]) -> Facts:
    """What mask and temperature say, as the operators take it: their last six arguments."""
    normalizer, mask, device = call.normalizer, call.source.mask, call.query.device
    left, right = mask.window if mask.window is not None else (None, None)
    if mask.causal:
        right = 0 if right is None else min(right, 0)
    return (
        None if mask.lengths is None else mask.lengths.to(device),
        None if mask.dense is None else _flat_mask(mask.dense.to(device), lead),
        left,
        right,
        mask.offset,
        1.0 / normalizer.temperature if isinstance(normalizer, Softmax) else 1.0,
    )


def restored(context: Tensor, call: Call) -> Tensor:
    """(N, T, Dv), or what it shall be already -> (..., T, Dv)."""
    if call.query.ndim == call.source.keys.ndim == call.source.values.ndim == 3:
        return context
    lead = leading(call.query, call.source.keys, call.source.values)
    return context if context.shape[:-2] == lead else context.reshape(*lead, *context.shape[-2:])


def visible(
    rows: slice,
    items: slice,
    sizes: tuple[int, int, int],
    facts: tuple[Tensor | None, Tensor | None, int | None, int | None, int],
    device: torch.device,
) -> Tensor | None:
    """What these rows of these items may see, broadcastable to (n, R, S); None: everything.

    `sizes` is (N, T, S), `facts` is (lengths, dense, left, right, offset): the meaning of the arguments, for
    implementations that work on blocks of rows.
    """
    N, _, S = sizes
    lengths, dense, left, right, offset = facts
    t = torch.arange(rows.start, rows.stop, device=device)[:, None] + offset
    s = torch.arange(S, device=device)
    n = torch.arange(items.start, items.stop, device=device)
    parts: list[Tensor] = []
    if left is not None:
        parts.append((s >= t - left)[None])
    if right is not None:
        parts.append((s <= t + right)[None])
    if lengths is not None:
        parts.append(s < lengths[n // (N // lengths.shape[0])][:, None, None])
    if dense is not None:
        some = dense if dense.shape[1] == 1 else dense[:, rows]
        parts.append(some[n // (N // dense.shape[0])])
    mask = None
    for part in parts:
        mask = part if mask is None else mask & part
    return mask


def _refuses_mask(mask: Mask, lead: tuple[int, ...]) -> str | None:
    first = lead[0] if lead else 1
    if mask.lengths is not None and mask.lengths.shape[0] not in (1, first):
        return f"lengths has {mask.lengths.shape[0]} rows where the leading axis has {first}"
    if mask.dense is not None and mask.dense.ndim > len(lead) + 2:
        return f"the dense mask has {mask.dense.ndim} axes where the query has {len(lead) + 2}"
    return None


def _flat_mask(dense: Tensor, lead: tuple[int, ...]) -> Tensor:
    """(..., T, S) -> (ND, T, S) with ND dividing N: axes that are broadcast at the end cost nothing."""
    axes = len(lead) + 2
    dense = dense.reshape(*[1] * (axes - dense.ndim), *dense.shape)
    shared = len(lead)
    while shared > 0 and dense.shape[shared - 1] == 1:
        shared -= 1
    own = lead[:shared]
    dense = dense.expand(*own, *dense.shape[shared:])
    return dense.reshape(prod(own), *dense.shape[-2:])

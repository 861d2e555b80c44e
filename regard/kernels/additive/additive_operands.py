"""Operands and operators of the additive kernels: one batch axis, and the mask as a few numbers.

The reference is Attention(AdditiveScore, normalizer=Softmax) with the same mask.
"""

from collections.abc import Iterator
from functools import reduce
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.dispatch import Call
from regard.attention.forms import Additive
from regard.attention.mask import Mask
from regard.attention.normalizers.softmax import Softmax
from regard.kernels.ops import operator
from regard.kernels.shapes import LAUNCHED, fits_launch, flat, leading, refuses_lengths

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
STEP = 4  # up to so many queries the weights are small enough to be kept


class Operands(NamedTuple):
    """The arguments of the additive operators."""

    a: Tensor  # (N, T, D): W q, with the leading axes flattened to N
    b: Tensor  # (N, S, D): U k, the prepared keys
    v: Tensor  # (D,)
    values: Tensor  # (N, S, Dv)
    lengths: Tensor | None = None  # (NL,), NL divides N: item n has lengths[n // (N / NL)]; heads share one
    dense: Tensor | None = None  # (ND, T or 1, S or 1) bool, likewise
    left: int | None = None  # t + offset - left <= s <= t + offset + right; None: no bound on that side
    right: int | None = None
    offset: int = 0
    scale: float = 1.0  # 1 / temperature; 1 under sparsemax


Facts = tuple[Tensor | None, Tensor | None, int | None, int | None, int, float]  # the last six of `Operands`


def _step_shapes(given: Operands) -> tuple[Tensor, Tensor]:
    a, values = given.a, given.values
    (N, T, _), (S, Dv) = a.shape, values.shape[1:]
    return values.new_empty(N, T, Dv), a.new_empty(N, T, S + 2 + Dv, dtype=torch.float32)


def _step_slopes(grad: Tensor, kept: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    *inputs, _, needed = rest
    given = zip(inputs, needed, strict=True)
    return tuple(x.new_empty(x.shape) if wanted else grad.new_empty(0) for x, wanted in given)


additive_operator = operator(
    "additive",
    Operands,
    "Tensor",
    of="a b v values",
    shapes=lambda given: given.values.new_empty(*given.a.shape[:2], given.values.shape[-1]),
    cpu=("additive.additive_cpu.forward", "additive.additive_cpu.backward"),
    cuda=("additive.additive_launch.forward", "additive.additive_launch.backward"),
)
additive_step_operator = operator(
    "additive_step",
    Operands,
    "(Tensor, Tensor)",
    of="a b v values",
    shapes=_step_shapes,
    saves=lambda inputs, output: (output[1], *inputs[:4], inputs[-1]),
    kept="Tensor kept, Tensor a, Tensor b, Tensor v, Tensor values, float scale, bool[4] needed",
    slopes=_step_slopes,
    cuda=("additive.additive_step_cuda.forward_of_rows", "additive.additive_step_cuda.backward_of_rows"),
)
additive_scores_operator = operator(
    "additive_scores",
    "Tensor a, Tensor b, Tensor v",
    "Tensor",
    of="a b v",
    shapes=lambda a, b, v: a.new_empty(*a.shape[:2], b.shape[1], dtype=torch.float32),
    cpu=("additive.additive_cpu.scores", "additive.additive_cpu.scores_backward"),
    cuda=("additive.additive_launch.scores", "additive.additive_launch.scores_backward"),
)


def refuses_additive(call: Call) -> str | None:
    """Why no additive kernel can run a call whose parts fit, as a clause; None if one can."""
    tensors = (call.query, call.source.keys, call.source.values)
    device = call.query.device
    for x in tensors[1:]:  # loops, which are faster than generators: this runs at every decoder step
        if x.device != device:
            return f"the tensors are on {', '.join(sorted({x.device.type for x in tensors}))}"
    for x in (*tensors, additive(call).v):
        if x.dtype not in DTYPES:
            return f"dtype is {x.dtype}, which goes to the reference"
    if call.query.is_cuda and not fits_launch(*tensors):
        return f"more than {LAUNCHED} rows of sources"
    return refuses_facts(call.source.mask, *tensors)


def refuses_facts(mask: Mask, *tensors: Tensor) -> str | None:
    """Why the mask does not fit the flattened leading axes of these tensors, as a clause; None if it does."""
    if mask.lengths is None and mask.dense is None:
        return None
    lead = leading(*tensors)
    if mask.dense is not None and mask.dense.ndim > len(lead) + 2:
        return f"the dense mask has {mask.dense.ndim} axes where the query has {len(lead) + 2}"
    return refuses_lengths(mask.lengths, lead)


def additive(call: Call) -> Additive:
    """The form of the call."""
    form = call.form()
    assert isinstance(form, Additive)
    return form


def operands(call: Call) -> Operands:
    """The call's operands: project the query, flatten the leading axes, and read the mask."""
    form, values = additive(call), call.source.values
    a = form.a
    call.seen_form = form._replace(query=a, W=None)
    lead = leading(a, form.keys, values)
    b, v = flat(form.keys, lead), form.v.squeeze(0)
    return Operands(flat(a, lead), b, v, flat(values, lead), *facts(call, lead))


def facts(call: Call, lead: tuple[int, ...]) -> Facts:
    """Mask and temperature as the last six arguments of the operators."""
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
    """(N, T, Dv) -> (..., T, Dv); a no-op if the shape is right already."""
    if call.query.ndim == call.source.keys.ndim == call.source.values.ndim == 3:
        return context
    lead = leading(call.query, call.source.keys, call.source.values)
    return context if context.shape[:-2] == lead else context.reshape(*lead, *context.shape[-2:])


class Block(NamedTuple):
    """A range of rows of a range of items whose scores fit a memory budget."""

    items: slice
    rows: slice


def visible(keys: Tensor, facts: Facts, block: Block) -> Tensor | None:
    """The mask of a block over keys (N, S, D), broadcastable to (n, R, S); None: everything is visible."""
    items, rows = block
    (N, S), device = keys.shape[:2], keys.device
    lengths, dense, left, right, offset, _ = facts
    if lengths is None and dense is None and left is None and right is None:
        return None  # skips the launches of the small tensors below
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
    return reduce(torch.logical_and, parts)


def blocks(N: int, T: int, S: int, pairs: int, least: int) -> Iterator[Block]:
    """Blocks of at most `pairs` (t, s) pairs: whole items, or a multiple of `least` rows of one item."""
    items = max(1, pairs // (T * S))
    rows = T if pairs >= T * S else max(least, pairs // S // least * least)
    for n in range(0, N, items):
        for t in range(0, T, rows):
            yield Block(slice(n, min(n + items, N)), slice(t, min(t + rows, T)))


def _flat_mask(dense: Tensor, lead: tuple[int, ...]) -> Tensor:
    """(..., T, S) -> (ND, T, S), ND divides N: trailing leading axes of size 1 are not expanded."""
    axes = len(lead) + 2
    dense = dense.reshape(*[1] * (axes - dense.ndim), *dense.shape)
    shared = len(lead)
    while shared > 0 and dense.shape[shared - 1] == 1:
        shared -= 1
    own = lead[:shared]
    dense = dense.expand(*own, *dense.shape[shared:])
    return dense.reshape(prod(own), *dense.shape[-2:])

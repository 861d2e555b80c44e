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
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.mask import Mask
from regard.attention.normalizers.base import Normalizer
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import is_lowered
from regard.attention.scores.additive import AdditiveScore, Projected, compare
from regard.attention.windows.everywhere import Everywhere
from regard.errors import check_shapes
from regard.kernels.dispatch import Call, is_own, named

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


def refuses_additive(call: Call, device: str, normalizer: type[Normalizer] = Softmax) -> str | None:
    """What no additive kernel can run, as a clause."""
    if not is_own(call.score, AdditiveScore):
        return f"score is {named(call.score)}, this kernel computes AdditiveScore"
    if not is_own(call.normalizer, normalizer):
        return f"normalizer is {named(call.normalizer)}, this kernel computes {normalizer.__name__}"
    if call.window is not None and not is_own(call.window, Everywhere):
        return f"window is {named(call.window)}, this kernel has none"
    if call.dropout > 0:
        return f"dropout is {call.dropout:g}, this kernel has none"
    tensors = (call.query, call.source.keys, call.source.values)
    for x in tensors:  # loops, not generators: a decoder asks this at every step
        if x.device.type != device:
            return f"the tensors are on {', '.join(sorted({x.device.type for x in tensors}))}, not {device}"
    for x in tensors:
        if x.dtype not in DTYPES:
            others = sorted({str(x.dtype) for x in tensors if x.dtype not in DTYPES})
            return f"dtype is {', '.join(others)}, which goes to the reference"
    reason = refuses_weights(call)
    mask = call.source.mask
    if reason is not None or (mask.lengths is None and mask.dense is None):
        return reason
    return _refuses_mask(mask, _lead(*tensors))


def refuses_weights(call: Call) -> str | None:
    """Why W and v of an additive score cannot meet the query as they are, as a clause."""
    parts: dict[str, Any] = call.score._modules
    query, v = call.query.dtype, parts["v"].weight.dtype
    if v is query:
        return None
    if v not in DTYPES:
        return f"dtype of the weights is {v}, which goes to the reference"
    if type(parts["W"]) is Projected or is_lowered(call.query):
        return None
    return f"query and weights differ in dtype ({', '.join(sorted({str(query), str(v)}))})"


def weight_alone(call: Call) -> Tensor | None:
    """The matrix W, where projecting the query is a product with it and nothing else; None otherwise."""
    W = call.score._modules["W"]
    if type(W) is not nn.Linear or W.bias is not None or W._forward_hooks or W._forward_pre_hooks:
        return None
    if W._backward_hooks or W._backward_pre_hooks:
        return None
    lowered = torch.is_autocast_enabled(call.query.device.type)
    return None if lowered or W.weight.dtype is not call.query.dtype else W.weight


def operands(call: Call, *, projected: bool = True) -> Operands:
    """Project the query, flatten the leading axes, and name the facts of the mask.

    Where it shall not be `projected`, the query stands in the place of a, and v is as the score has it,
    (1, D): each of what is done to them here takes autograd as long as a launch.
    """
    score = call.score
    assert isinstance(score, AdditiveScore)
    W, v = score.W, score.v.weight
    check_query(call)
    a, b, values = W(call.query) if projected else call.query, call.source.keys, call.source.values
    saw(call, a, v, None if projected else weight_alone(call))
    lead = _lead(a, b, values)
    return Operands(
        flat(a, lead),
        flat(b, lead),
        v.squeeze(0) if projected else v,
        flat(values, lead),
        *facts(call, lead),
    )


def saw(call: Call, a: Tensor, v: Tensor, W: Tensor | None) -> None:
    """Keep v by value for later looks, and W where the kernel itself projects the query."""
    if call.keep_weights:  # the weights themselves are kept
        return
    v, W = v.clone(), None if W is None else W.clone()
    call.saw(a, lambda query, keys: compare(query if W is None else F.linear(query, W), keys, v))


def check_query(call: Call) -> None:
    """The query has the features that W takes, the keys those that it gives."""
    W: Any = call.score._modules["W"]
    features = W.in_features
    if call.source.keys.shape[-1] != W.out_features:
        check_shapes("AdditiveScore", ("keys", call.source.keys, "... S D"), D=W.out_features)
    if call.query.shape[-1] != features:
        check_shapes("AdditiveScore", ("query", call.query, "... T Dq"), Dq=features)


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
    lead = _lead(call.query, call.source.keys, call.source.values)
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


def _lead(*tensors: Tensor) -> tuple[int, ...]:
    shapes = [x.shape[:-2] for x in tensors]
    for shape in shapes:
        if shape != shapes[0]:
            break
    else:  # nothing to broadcast
        return tuple(shapes[0])
    return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def flat(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """(..., T, D) -> (N, T, D)."""
    if x.shape[:-2] != lead:
        x = x.expand(*lead, *x.shape[-2:])
    return x if len(lead) == 1 else x.reshape(prod(lead), *x.shape[-2:])


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

"""Shared by the kernels for product scores: the form, and parts of the mask."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.dispatch import Call
from regard.attention.forms import Product
from regard.attention.mask import Mask
from regard.attention.numerics import HALF
from regard.attention.scores.base import Score

HALF_OR_SINGLE = (torch.float32, torch.bfloat16, torch.float16)


def refuses_dtypes(call: Call) -> str | None:
    """Why these dtypes cannot be multiplied, as a clause; half and single precision may be mixed."""
    query, keys, values = call.query.dtype, call.source.keys.dtype, call.source.values.dtype
    if query is keys is values:
        return refuses_weights(call)
    if query in HALF_OR_SINGLE and keys in HALF_OR_SINGLE and values in HALF_OR_SINGLE:
        return refuses_weights(call)
    dtypes = ", ".join(sorted({str(dtype) for dtype in (query, keys, values)}))
    return f"query, keys and values differ in dtype ({dtypes})"


def refuses_weights(call: Call) -> str | None:
    """Why the parameters of the score would change the precision of the query, as a clause."""
    query, score = call.query.dtype, call.score
    if score._modules or score._parameters:
        for weight in score.parameters():
            if weight.dtype is not query and weight.dtype not in HALF_OR_SINGLE:
                dtypes = ", ".join(sorted({str(query), str(weight.dtype)}))
                return f"query and weights differ in dtype ({dtypes})"
    return None


def product(call: Call) -> Product:
    """The form of the call."""
    form = call.form()
    assert isinstance(form, Product)
    return form


def half_product(call: Call) -> Product:
    """The same, rounded if the call is in half precision but the form is not."""
    score, dtype = call.score, call.source.values.dtype
    assert isinstance(score, Score)
    if type(score).half_form is Score.half_form or dtype not in HALF or dtype is not call.query.dtype:
        return product(call)
    form = score.half_form(
        call.query, call.source.keys
    )  # not stored in the call: weights on demand use the reference's form
    assert isinstance(form, Product)
    return form


def row_mask(mask: Mask, lead: tuple[int, ...], S: int, device: torch.device) -> Tensor | None:
    """(B or 1, H or 1, 1, S): what lengths and a one-row dense mask leave visible; None: everything."""
    if mask.dense is None:
        if mask.lengths is None:
            return None
        return torch.arange(S, device=device) < mask.lengths.to(device).view(-1, 1, 1, 1)
    facts = Mask(lengths=mask.lengths, dense=mask.dense)
    row = facts.to_dense(1, S, ndim=len(lead) + 2, device=device)
    assert row is not None
    row = row.reshape(*[1] * (len(lead) + 2 - row.ndim), *row.shape)
    row = row.expand(*row.shape[:-1], S)
    if len(lead) == 2:
        return row
    if len(lead) < 2:
        return row.reshape(row.shape[0] if lead else 1, 1, 1, S)
    own = row.shape[1:-2]
    if all(size == 1 for size in own):
        return row.reshape(row.shape[0], 1, 1, S)
    return row.expand(row.shape[0], *lead[1:], 1, S).reshape(row.shape[0], -1, 1, S)


def hidden_pairs(call: Call, ndim: int) -> Tensor | None:
    """(..., T or 1, S or 1) what the mask hides, with at most `ndim` axes; None: nothing."""
    query, source = call.query, call.source
    shown = source.mask.to_dense(query.shape[-2], source.S, ndim=ndim, device=query.device)
    return None if shown is None else ~(shown if shown.ndim > 1 else shown[None])


def has_rows(mask: Mask) -> bool:
    """Whether a dense mask differs between queries, and so is T × S already."""
    return mask.dense is not None and mask.dense.ndim > 1 and mask.dense.shape[-2] > 1


def bias_of(visible: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """The additive mask: 0 where visible, -inf elsewhere."""
    if visible is None:
        return None
    return torch.zeros_like(visible, dtype=dtype).masked_fill(~visible, -torch.inf)


def padded(x: Tensor, D: int) -> Tensor:
    """(..., d) -> (..., D), padded with zeros, which leave products unchanged."""
    return x if x.shape[-1] == D else F.pad(x, (0, D - x.shape[-1]))


def draws(module: nn.Module) -> bool:
    """Whether the module contains active dropout, so that its output cannot be recomputed."""
    return module.training and any(isinstance(part, nn.Dropout) and part.p > 0 for part in module.modules())

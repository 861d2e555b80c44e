"""Scores that are a plain product once the source is prepared: scale · q · k.

    dot, scaled dot    q · k, with their scale
    general            W k is prepared, so q · (W k)
    cosine             unit keys are prepared; the query becomes β q / ‖q‖
    feed-forward       F(k) is prepared; the query becomes F(q)

What the kernels for such scores share: the product form, one batch and one head axis, facts about the mask.
"""

from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.copies import copied
from regard.attention.mask import Mask
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import HALF, is_lowered
from regard.attention.scores.cosine import CosineScore
from regard.attention.scores.dot import DotScore
from regard.attention.scores.feedforward import FeedForwardScore
from regard.attention.scores.general import GeneralScore
from regard.attention.windows.everywhere import Everywhere
from regard.errors import check_shapes
from regard.kernels.dispatch import Call, is_own, named

PRODUCTS = (DotScore, GeneralScore, CosineScore, FeedForwardScore)
PRODUCT = DotScore(1.0)  # what is left of each of them, once the query is projected
HALF_OR_SINGLE = (torch.float32, torch.bfloat16, torch.float16)


def refuses_product(call: Call) -> str | None:
    """Why the scores of a call are no product that a kernel may form, as a clause."""
    if not is_own(call.score, *PRODUCTS):
        return (
            f"score is {named(call.score)}, this kernel computes dot, general, cosine and feed-forward scores"
        )
    if isinstance(call.score, FeedForwardScore) and draws(call.score):
        return "the feed-forward score draws its own dropout, which cannot be drawn again for the weights"
    query, keys, values = call.query.dtype, call.source.keys.dtype, call.source.values.dtype
    if isinstance(call.score, FeedForwardScore):
        weights = next(call.score.parameters()).dtype
        if weights is not query and not is_lowered(call.query):
            return f"query and weights differ in dtype ({', '.join(sorted({str(query), str(weights)}))})"
    beta = call.score.beta if isinstance(call.score, CosineScore) else None
    if beta is not None and beta.weight.dtype not in (query, *HALF_OR_SINGLE):
        return (
            f"query and weights differ in dtype ({', '.join(sorted({str(query), str(beta.weight.dtype)}))})"
        )
    if query is keys is values:
        return None
    # cosine's directions are in full precision, whatever they were made of
    mixed = query in HALF_OR_SINGLE and keys in HALF_OR_SINGLE and values in HALF_OR_SINGLE
    if not (mixed and isinstance(call.score, CosineScore)):
        dtypes = ", ".join(sorted({str(dtype) for dtype in (query, keys, values)}))
        return f"query, keys and values differ in dtype ({dtypes})"
    return None


def refuses_softmax(call: Call) -> str | None:
    """Why the weights are no softmax, as a clause."""
    if not is_own(call.normalizer, Softmax):
        return f"normalizer is {named(call.normalizer)}, this kernel computes Softmax"
    return None


def refuses_window(call: Call) -> str | None:
    """Why what may be seen is not the mask alone, as a clause."""
    if call.window is not None and not is_own(call.window, Everywhere):
        return f"window is {named(call.window)}, this kernel has none"
    return None


def product_form(call: Call) -> tuple[Tensor, float]:
    """The query and the scale with which the score is scale · query · keys."""
    check_width(call)
    if isinstance(call.score, DotScore):
        return call.query, call.score.factor(call.query.shape[-1])
    query = call.query
    if isinstance(call.score, CosineScore):
        query = call.score.directions(query)
    elif isinstance(call.score, FeedForwardScore):
        query = call.score.F(query).to(call.source.keys.dtype)
    call.saw(query, PRODUCT)
    return query, 1.0


def check_width(call: Call) -> None:
    """As the scores themselves do: loops that are given addresses would read beyond a narrower key."""
    query, keys = call.query, call.source.keys
    if isinstance(call.score, FeedForwardScore):
        if query.shape[-1] != call.score.dim:
            check_shapes("FeedForwardScore", ("query", query, "... T D"), D=call.score.dim)
        if keys.shape[-1] != call.score.hidden:
            check_shapes("FeedForwardScore", ("keys", keys, "... S Dp"), Dp=call.score.hidden)
    elif query.shape[-1] != keys.shape[-1]:
        check_shapes(type(call.score).__name__, ("query", query, "... T D"), ("keys", keys, "... S D"))


STRONGEST = 6.0  # cosines times more than this stay in full precision


def rounded_form(call: Call) -> tuple[Tensor, float]:
    """The same; in half precision cosine's query, which is in full precision otherwise, is rounded once.

    A strength multiplies what rounding does to a direction. Of a number it is known here whether it is too
    large for that; of one that is learnt it is not (docs/kernels.md says how far it may go).
    """
    score, dtype = call.score, call.source.values.dtype
    if not isinstance(score, CosineScore) or dtype not in HALF or dtype is not call.query.dtype:
        return product_form(call)
    if score.beta is None and abs(score.strength) > STRONGEST:
        return product_form(call)
    check_width(call)
    from regard.kernels.product.cosine_query import (  # which `import regard` does without
        directions,
        runs_fused,
    )

    if runs_fused(call.query):
        call.saw(call.query, copied(score))
        return directions(score, call.query), 1.0
    query = score.directions(call.query)
    call.saw(query, PRODUCT)  # unrounded: a look is the reference's
    return query.to(dtype), 1.0


def leading(*tensors: Tensor) -> tuple[int, ...]:
    """The common leading axes of (..., T, D)."""
    first = tensors[0].shape[:-2]
    for x in tensors[1:]:
        if x.shape[:-2] != first:
            break
    else:
        return tuple(first)
    return tuple(torch.broadcast_shapes(*(x.shape[:-2] for x in tensors)))  # type: ignore[no-untyped-call]


def four_axes(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """(..., T, D) -> (B, H, T, D): one batch and one head axis, as fused attention wants them."""
    if len(lead) == 2 and x.shape[:-2] == lead:
        return x
    if len(lead) == 1 and x.ndim == 3 and x.shape[0] == lead[0]:
        return x.unsqueeze(1)
    x = x.expand(*lead, *x.shape[-2:])
    return x.reshape(*(lead[:1] or (1,)), prod(lead[1:]), *x.shape[-2:])


def three_axes(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """(..., T, D) -> (N, T, D): the leading axes as one."""
    if x.ndim == 3 and len(lead) == 1 and x.shape[0] == lead[0]:
        return x
    return x.expand(*lead, *x.shape[-2:]).reshape(prod(lead), *x.shape[-2:])


def row_mask(mask: Mask, lead: tuple[int, ...], S: int, device: torch.device) -> Tensor | None:
    """(B or 1, H or 1, 1, S): what lengths and a dense mask of one row leave visible; None: everything."""
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


def has_rows(mask: Mask) -> bool:
    """A dense mask says something else for each query: it is T × S already."""
    return mask.dense is not None and mask.dense.ndim > 1 and mask.dense.shape[-2] > 1


def bias_of(visible: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """What is added to the scores: 0 where visible, -inf elsewhere."""
    if visible is None:
        return None
    return torch.zeros_like(visible, dtype=dtype).masked_fill(~visible, -torch.inf)


def padded(x: Tensor, D: int) -> Tensor:
    """(..., d) -> (..., D) with zeros, which change no product."""
    return x if x.shape[-1] == D else F.pad(x, (0, D - x.shape[-1]))


def draws(module: nn.Module) -> bool:
    """A part of the module draws dropout, so that its answer cannot be computed again."""
    return module.training and any(isinstance(part, nn.Dropout) and part.p > 0 for part in module.modules())

"""FlexAttention's score_mod and block_mask, applied to scores computed on demand.

    score_mod(score, b, h, t, s) -> score       mask_mod(b, h, t, s) -> visible, in blocks that are visible

Both are functions of scalars, vmapped over the axes as in FlexAttention.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

from regard.attention.keep import Rows

AXES = 4  # b, h, t, s


def modified(scores: Tensor, rows: Rows, mod: Callable[..., Tensor]) -> Tensor:
    """What a score_mod makes of the scores."""
    return _mapped(mod, _indices(scores, rows), scores)


def block_masked(scores: Tensor, rows: Rows, mask: Any) -> Tensor:
    """The scores that a BlockMask shows: visible pairs within visible blocks."""
    b, h, t, s = _indices(scores, rows)
    visible = _mapped(mask.mask_mod, (b, h, t, s))
    blocks = mask.to_dense().bool().to(scores.device)  # (B or 1, H or 1, rows, columns)
    high, wide = mask.BLOCK_SIZE
    whole = blocks.shape[0] == 1, blocks.shape[1] == 1
    b, h = (torch.zeros_like(x) if one else x for x, one in zip((b, h), whole, strict=True))
    visible = visible & blocks[b[:, None, None, None], h[:, None, None], (t // high)[:, None], s // wide]
    return scores.masked_fill(~visible, -torch.inf)


def _indices(scores: Tensor, rows: Rows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The indices of batch rows, heads, queries and sources."""
    b, h, t, s = (torch.arange(size, device=scores.device) for size in scores.shape)
    h = h if rows.heads is None else rows.heads.to(scores.device)
    t = t if rows.queries is None else rows.queries.to(scores.device)
    return b, h, t, s


def _mapped(mod: Callable[..., Tensor], indices: tuple[Tensor, ...], *first: Tensor) -> Tensor:
    """Map a function of scalars over all pairs: (B, H, T, S)."""
    for axis in reversed(range(AXES)):
        over = tuple(0 if own == axis else None for own in range(AXES))
        mod = torch.vmap(mod, in_dims=(*([0] * len(first)), *over))
    with TransformGetItemToIndex():
        return mod(*first, *indices)

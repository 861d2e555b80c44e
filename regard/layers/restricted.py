"""Restricted self-attention: each position sees r neighbours on either side, at a cost of O(r · n · d).

    out_t = attention(q_t; {(k_s, v_s) : |t - s| <= r})

A mask gives the same values but computes all n² scores. Here the queries are grouped into blocks of r, and a
block is compared with itself and its two neighbours, which contain all that it may see: 3 r scores per query.

    paper    here             shape
    n        T                positions
    r        reach            neighbours to either side
             blocks           ⌈T / r⌉ of r queries each, with 3 r keys each

Vaswani et al. Attention is all you need. 2017, section 4 and table 1. https://arxiv.org/abs/1706.03762
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.compose import Attention
from regard.attention.mask import Mask
from regard.errors import check_shapes, check_whole


def attend_nearby(
    attention: Attention,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    reach: int,
    lengths: Tensor | None = None,
) -> Tensor:
    """(B, T, Dq), (B, T, Dk), (B, T, Dv) -> context (B, T, Dv), as under `Mask(window=(reach, reach))`.

    The score must not depend on positions, since those in a block are not those of the sequence. `lengths`
    (B,) hides what lies beyond each row's end.
    """
    sizes = check_shapes(
        "attend_nearby", ("query", query, "B T Dq"), ("keys", keys, "B T Dk"), ("values", values, "B T Dv")
    )
    check_whole("attend_nearby", least=0, reach=reach)
    T = sizes.get("T", query.shape[1])
    r = max(1, reach)
    N = max(1, -(-T // r))
    queries = F.pad(query, (0, 0, 0, N * r - T)).view(len(query), N, r, query.shape[-1])  # (B, N, r, Dq)
    mask = _visible(T, N, r, reach, lengths, query.device)
    source = attention.prepare(_neighbours(keys, N, r), _neighbours(values, N, r), Mask(dense=mask))
    return attention(queries, source).context.flatten(1, 2)[:, :T]


def _neighbours(x: Tensor, N: int, r: int) -> Tensor:
    """(B, T, D) -> (B, N, 3 r, D): each block with the one before and the one after."""
    padded = F.pad(x, (0, 0, r, N * r - x.shape[1] + r))
    return padded.unfold(1, 3 * r, r).transpose(-1, -2)


def _visible(T: int, N: int, r: int, reach: int, lengths: Tensor | None, device: torch.device) -> Tensor:
    """(N, r, 3 r), or (B, N, r, 3 r) with lengths: positions that are within reach and exist."""
    t = torch.arange(N * r, device=device).view(N, r, 1)
    s = torch.arange(N, device=device).view(N, 1, 1) * r + torch.arange(-r, 2 * r, device=device)
    near = ((t - s).abs() <= reach) & (s >= 0) & (s < T)
    return near if lengths is None else near & (s < lengths.to(device).view(-1, 1, 1, 1))

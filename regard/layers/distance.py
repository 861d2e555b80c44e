"""Self-attention that knows how far apart two positions are: a dot product and a learnt bias per distance.

    e[i, j] = f_i · f_j + d_{i-j}

    paper      here              shape
    f_i f_j    query, keys       (..., T, D + 1)   the last feature is the position
    d_{i-j}    d                 (2 far + 2,)      distances -far … far, and one bias for all beyond

Positions are stored in the vectors (`with_positions`), so that a query has the same scores alone and among
others.

Parikh, Täckström, Das, Uszkoreit. A decomposable attention model for natural language inference. 2016,
section 3.4. https://arxiv.org/abs/1606.01933
"""

import torch
from torch import Tensor, nn

from regard.attention.numerics import upcast
from regard.attention.scores.base import Score
from regard.attention.scores.dot import DotScore
from regard.errors import check_shapes, check_whole


class DistanceScore(Score):
    """q · k + d[signed distance]; all distances beyond `far` share one bias."""

    def __init__(self, *, far: int) -> None:
        super().__init__()
        check_whole("DistanceScore", least=0, far=far)
        self.far = far
        self.dot = DotScore(1.0)
        self.d = nn.Parameter(torch.zeros(2 * far + 2))

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        check_shapes("DistanceScore", ("query", query, "... T D"), ("keys", keys, "... S D"))
        distance = (query[..., -1:] - keys[..., -1:].mT).round().long()  # (..., T, S)
        place = torch.where(distance.abs() <= self.far, distance + self.far, 2 * self.far + 1)
        return self.dot(query[..., :-1], keys[..., :-1]) + upcast(self.d)[place]

    def extra_repr(self) -> str:
        return f"far={self.far}"


def with_positions(x: Tensor) -> Tensor:
    """(..., T, D) -> (..., T, D + 1): the position as the last feature, in full precision."""
    positions = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
    return torch.cat([upcast(x), positions[:, None].expand(*x.shape[:-1], 1)], -1)

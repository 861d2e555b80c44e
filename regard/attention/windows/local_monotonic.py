"""Local attention, monotonic: the window moves with the target position.

    p_t = t,  s ∈ [p_t - D, p_t + D]                       (section 3.2, "local-m")

    paper    here
    p_t      centre      counted from 0
    D        half_width  the paper takes 10
    t        positions

Luong, Pham, Manning. Effective approaches to attention-based neural machine translation. 2015.
https://arxiv.org/abs/1508.04025
"""

import torch
from torch import Tensor

from regard.attention.windows.base import View, Window, source_length
from regard.catalog import card
from regard.errors import check_whole


@card(
    "window",
    "local-monotonic",
    title="Local attention, monotonic (local-m)",
    authors="Luong, Pham, Manning",
    year=2015,
    link="https://arxiv.org/abs/1508.04025",
    sentence="A window that moves on with the target position.",
)
class LocalMonotonic(Window):
    """2 D + 1 positions around the position of the query."""

    positional = True

    def __init__(self, *, half_width: int) -> None:
        super().__init__()
        check_whole("LocalMonotonic", least=0, half_width=half_width)
        self.half_width = half_width

    def forward(self, query: Tensor, mask: Tensor, positions: Tensor) -> View:
        last = source_length(mask) - 1
        # the paper leaves open where a target longer than its source looks; we stay at the source's end
        centre = torch.minimum(positions[:, None], last)
        s = torch.arange(mask.shape[-1], device=mask.device)
        return View(mask & ((s - centre).abs() <= self.half_width), None)

    def extra_repr(self) -> str:
        return f"half_width={self.half_width}"

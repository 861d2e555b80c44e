"""Global attention: every source position may be attended.

    a_t(s) = align(h_t, h̄_s) over all s                    (section 3.1)

Luong, Pham, Manning. Effective approaches to attention-based neural machine translation. 2015.
https://arxiv.org/abs/1508.04025
"""

from torch import Tensor

from regard.attention.windows.base import View, Window
from regard.catalog import card


@card(
    "window",
    "global",
    title="Global attention",
    authors="Luong, Pham, Manning",
    year=2015,
    link="https://arxiv.org/abs/1508.04025",
    sentence="Every source position may be attended to.",
)
class Everywhere(Window):
    """No window: leaves the mask as it is."""

    def forward(self, query: Tensor, mask: Tensor, positions: Tensor) -> View:
        return View(mask, None)

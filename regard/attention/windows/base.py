"""The contract of a window: where q_t may look, and how strongly.

A mask is known before the query; a window depends on the query and may have parameters.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.parts import Part


class View(NamedTuple):
    """What a window leaves visible, and the factor on the weights."""

    mask: Tensor  # (..., T, S) bool
    factor: Tensor | None  # (..., T, S), multiplies the weights after normalisation; not renormalised


class Window(Part):
    """Narrows what may be attended, depending on the query."""

    def forward(self, query: Tensor, mask: Tensor, positions: Tensor) -> View:
        """(..., T, Dq), mask broadcastable to (..., T, S), (T,) absolute query positions -> View.

        The mask has its full last axis; `source_length(mask)` is the true source length.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no forward(query, mask, positions).")


def source_length(mask: Tensor) -> Tensor:
    """(..., S) -> (..., 1): one past the last visible position, 0 where nothing is visible.

    Not the number of visible positions: a mask may hide the beginning, but positions still count from 0.
    """
    ends = torch.arange(1, mask.shape[-1] + 1, device=mask.device)
    if mask.shape[-1] == 0:
        return ends.new_zeros(*mask.shape[:-1], 1)
    return torch.where(mask, ends, 0).amax(-1, keepdim=True)

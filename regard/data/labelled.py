"""Sequences with one label each, as tensors."""

from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class LabelledBatch:
    """Sequences of symbols, several at each step, and their labels. Padding is told by the lengths."""

    symbols: Tensor  # (B, T, F)
    lengths: Tensor  # (B,)
    labels: Tensor  # (B,)

    @property
    def size(self) -> int:
        return self.symbols.shape[0]

    def to(self, device: torch.device | str) -> Self:
        return type(self)(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})

"""Episodes of few-shot classification: labelled drawings of new classes, and drawings to be named."""

from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class EpisodeBatch:
    """Episodes of one shape: N classes, K drawings of each in random order, and Q queries apart."""

    support: Tensor  # (B, N K, 28, 28) uint8, ink is 255
    labels: Tensor  # (B, N K) below N
    queries: Tensor  # (B, Q, 28, 28) uint8
    answers: Tensor  # (B, Q) below N

    @property
    def size(self) -> int:
        return self.support.shape[0]

    def to(self, device: torch.device | str) -> Self:
        return type(self)(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})

"""Base class of all batches of tensors, and sequences with one label each."""

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class TensorBatch:
    """B examples as tensors that move between devices together; the first field has a row per example."""

    @property
    def size(self) -> int:
        rows: Tensor = getattr(self, fields(self)[0].name)
        return rows.shape[0]

    def to(self, device: torch.device | str) -> Self:
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{k: v.to(device) for k, v in values.items() if isinstance(v, Tensor)})


@dataclass(frozen=True)
class LabelledBatch(TensorBatch):
    """Sequences of symbols, several at each step, and their labels. The lengths define the padding."""

    symbols: Tensor  # (B, T, F)
    lengths: Tensor  # (B,)
    labels: Tensor  # (B,)

"""What all batches of tensors share."""

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class TensorBatch:
    """B examples as tensors that go to a device together; the first field has a row for each example."""

    @property
    def size(self) -> int:
        rows: Tensor = getattr(self, fields(self)[0].name)
        return rows.shape[0]

    def to(self, device: torch.device | str) -> Self:
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{k: v.to(device) for k, v in values.items() if isinstance(v, Tensor)})

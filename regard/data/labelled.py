"""Sequences with one label each, as tensors."""

from dataclasses import dataclass

from torch import Tensor

from regard.data.tensor_batch import TensorBatch


@dataclass(frozen=True)
class LabelledBatch(TensorBatch):
    """Sequences of symbols, several at each step, and their labels. The lengths define the padding."""

    symbols: Tensor  # (B, T, F)
    lengths: Tensor  # (B,)
    labels: Tensor  # (B,)

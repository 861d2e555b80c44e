"""Sequences of vectors in, sequences of bits out.

here     shape
I, O     numbers of input channels and of output bits
inputs   (B, T, I)
targets  (B, T, O), 0 or 1
counted  (B, T), True where an answer is due
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.tensor_batch import TensorBatch

BUCKET = 8  # steps; few multiples of it occur in a training run


@dataclass(frozen=True)
class BitBatch(TensorBatch):
    """A machine's input at each step, and its targets at the steps that count."""

    inputs: Tensor  # (B, T, I)
    targets: Tensor  # (B, T, O)
    counted: Tensor  # (B, T) bool

    def padded(self, T: int) -> Self:
        """Padded at the end to T steps with zeros that do not count."""
        more = T - self.inputs.shape[1]
        return type(self)(
            F.pad(self.inputs, (0, 0, 0, more)),
            F.pad(self.targets, (0, 0, 0, more)),
            F.pad(self.counted, (0, more)),
        )

    def rounded(self) -> Self:
        """Padded to a multiple of 8 steps, so that few shapes occur."""
        return self.padded(-(-self.inputs.shape[1] // BUCKET) * BUCKET)


def join(batches: Sequence[BitBatch]) -> BitBatch:
    """Several batches as one, each padded to the longest."""
    longest = max(batch.inputs.shape[1] for batch in batches)
    equal = [batch.padded(longest) for batch in batches]
    return BitBatch(*(torch.cat([getattr(b, f.name) for b in equal]) for f in fields(BitBatch)))

"""Sequences of vectors in, sequences of bits out; and chance that can be asked for any example by its number.

    u(row, i) = mix(mix(stream + row) + i)  / 2^64        mix is the finaliser of SplitMix64

The numbers of an example depend on the stream and its own number alone: no generator has a state, a batch is
drawn in one stroke, and an example is the same in whichever batch it comes.

    here     shape
    I, O     numbers of input channels and of output bits
    inputs   (B, T, I)
    targets  (B, T, O), 0 or 1
    counted  (B, T), True where an answer is due

Steele, Lea, Flood. Fast splittable pseudorandom number generators. 2014. https://doi.org/10.1145/2714064.2660195
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

BUCKET = 8  # steps; a training run meets few lengths that are multiples of it

Uniform = npt.NDArray[np.float64]
_Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class BitBatch:
    """What a machine reads step by step, and what it should answer at the steps that count."""

    inputs: Tensor  # (B, T, I)
    targets: Tensor  # (B, T, O)
    counted: Tensor  # (B, T) bool

    @property
    def size(self) -> int:
        return self.inputs.shape[0]

    def to(self, device: torch.device | str) -> Self:
        return type(self)(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})

    def padded(self, T: int) -> Self:
        """The same with silent steps that do not count at the end, T in all."""
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


def uniform(stream: str, rows: Sequence[int], count: int) -> Uniform:
    """(B, count) numbers in [0, 1) for the examples of these numbers in a named stream."""
    start = np.frombuffer(blake2b(stream.encode(), digest_size=8).digest(), dtype="<u8").astype(np.uint64)
    keys = _mix(np.asarray(rows, dtype=np.uint64) + start)
    words = _mix(keys[:, None] + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


_GOLDEN = np.array(0x9E3779B97F4A7C15, dtype=np.uint64)
_FIRST = np.array(0xBF58476D1CE4E5B9, dtype=np.uint64)
_SECOND = np.array(0x94D049BB133111EB, dtype=np.uint64)


def _mix(z: _Words) -> _Words:
    """Every bit of the result depends on every bit of z; sums and products wrap round at 2^64."""
    z = z + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))

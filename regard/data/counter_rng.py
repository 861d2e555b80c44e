"""Random numbers that can be asked for any example by its number.

    w(row, i) = mix(mix(stream + row) + i γ)        mix is the finaliser of SplitMix64, γ its constant

The numbers of an example depend on the stream's name and its own number alone: no generator has a state, a
batch is drawn in one stroke, in any process, and an example is the same in whichever batch it comes.

Steele, Lea, Flood. Fast splittable pseudorandom number generators. 2014.
https://doi.org/10.1145/2714064.2660195
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Uniform = npt.NDArray[np.float64]

_GOLDEN = np.array(0x9E3779B97F4A7C15, dtype=np.uint64)
_FIRST = np.array(0xBF58476D1CE4E5B9, dtype=np.uint64)
_SECOND = np.array(0x94D049BB133111EB, dtype=np.uint64)


def random_words(stream: str, rows: Sequence[int] | npt.NDArray[np.int64], count: int) -> Words:
    """(B, count) random 64-bit numbers for the examples of these numbers in a named stream."""
    start = np.frombuffer(blake2b(stream.encode(), digest_size=8).digest(), dtype="<u8").astype(np.uint64)
    keys = _mix(np.asarray(rows).astype(np.uint64) + start)
    return _mix(keys[:, None] + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN)


def uniform(stream: str, rows: Sequence[int] | npt.NDArray[np.int64], count: int) -> Uniform:
    """The same as numbers in [0, 1)."""
    return (random_words(stream, rows, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def unit(numbers: Words) -> npt.NDArray[np.float32]:
    """Random words -> [0, 1) on a grid of 2⁻²⁴, where float32 is exact and so are sums of products."""
    return (numbers >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def _mix(z: Words) -> Words:
    """Every bit of the result depends on every bit of z; sums and products wrap round at 2^64."""
    z = z + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))

"""Counter-based random numbers: those of any example, computed from its number.

    w(row, i) = mix(mix(stream + row) + i γ)        mix is the finaliser of SplitMix64, γ its constant

The random numbers of an example depend only on the stream's name and its own number: there is no generator
state, a batch is drawn at once, in any process, and an example is the same in whichever batch it occurs.

Steele, Lea, Flood. Fast splittable pseudorandom number generators. 2014.
https://doi.org/10.1145/2714064.2660195
"""

from collections.abc import Sequence
from hashlib import blake2b

import torch
from torch import Tensor


def _signed(word: int) -> int:
    """An unsigned 64-bit number as the int64 with the same bits."""
    return word - (word >> 63 << 64)


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)


def random_words(stream: str, rows: Sequence[int] | Tensor, count: int) -> Tensor:
    """(B, count) random 64-bit words for the numbered examples of a named stream.

    They are int64, so half of them are negative; `high_bits` treats them as unsigned.
    """
    start = int.from_bytes(blake2b(stream.encode(), digest_size=8).digest(), "little", signed=True)
    keys = _mix(torch.as_tensor(rows, dtype=torch.int64) + start)
    return _mix(keys[:, None] + torch.arange(1, count + 1) * _GOLDEN)


def high_bits(words: Tensor, count: int) -> Tensor:
    """The top `count` bits of each word, fewer than 64: a number in [0, 2^count)."""
    return (words >> (64 - count)).bitwise_and_((1 << count) - 1)


def uniform(stream: str, rows: Sequence[int] | Tensor, count: int) -> Tensor:
    """Random numbers in [0, 1), float64."""
    return high_bits(random_words(stream, rows, count), 53).double().mul_(2.0**-53)


def unsigned(words: Tensor) -> Tensor:
    """Map words to int64 so that they sort as unsigned."""
    return words ^ _signed(1 << 63)


def unit(words: Tensor) -> Tensor:
    """Random words -> [0, 1) on a grid of 2⁻²⁴, where float32 is exact and so are sums of products."""
    return high_bits(words, 24).float().mul_(2.0**-24)


def _mix(z: Tensor) -> Tensor:
    """The finaliser of SplitMix64: every output bit depends on every bit of z; arithmetic wraps at 2^64."""
    z = z + _GOLDEN
    z = z.bitwise_xor_(high_bits(z, 34)).mul_(_FIRST)
    z = z.bitwise_xor_(high_bits(z, 37)).mul_(_SECOND)
    return z.bitwise_xor_(high_bits(z, 33))

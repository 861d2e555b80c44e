"""Tensors to and from raw bytes, without NumPy."""

import torch
from torch import Tensor


def as_bytes(values: Tensor) -> bytes:
    """The raw bytes of a CPU tensor, in row-major order."""
    data = bytearray(values.nbytes)
    if data:
        torch.frombuffer(data, dtype=values.dtype).copy_(values.reshape(-1))
    return bytes(data)


def from_bytes(data: bytes, dtype: torch.dtype = torch.uint8) -> Tensor:
    """(N,) the numbers of such bytes, copied."""
    return torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)

"""Weights in fewer bytes: int8 with a scale for each row, or bfloat16. Read back as float32.

    W ≈ scale · q,   q = round(W / scale),   scale = max |row of W| / 127

A matrix has one scale a row, which is an output of a linear layer or a word of an embedding. Vectors (biases,
norms, running means) stay as they are: they are few, and everything depends on them.
"""

from typing import Literal

import torch
from torch import Tensor

Encoding = Literal["int8", "bf16", "float32"]
ENCODINGS: tuple[Encoding, ...] = ("int8", "bf16", "float32")  # the smallest first
SCALE = ".int8-scale"  # behind the name of the tensor that it scales
LARGEST = 127


def encode(tensors: dict[str, Tensor], encoding: Encoding) -> dict[str, Tensor]:
    """The matrices in fewer bytes, everything else as it is."""
    encoded: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if encoding == "float32" or not tensor.is_floating_point() or tensor.ndim < 2:
            encoded[name] = tensor
        elif encoding == "bf16":
            encoded[name] = tensor.bfloat16()
        else:
            encoded[name], encoded[name + SCALE] = to_int8(tensor)
    return encoded


def decode(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """What `encode` was given, about; tensors that it did not encode come back as they are."""
    scales = {name for name in tensors if name.endswith(SCALE)}
    return {
        name: _decoded(tensor, tensors.get(name + SCALE))
        for name, tensor in tensors.items()
        if name not in scales
    }


def _decoded(tensor: Tensor, scale: Tensor | None) -> Tensor:
    if scale is not None:
        return tensor.float() * scale
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor


def to_int8(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """(R, …) -> (R, …) int8 and (R, 1, …) float32 scales; a row of zeros has the scale 1."""
    rows = tensor.detach().float()
    scale = rows.abs().amax(dim=tuple(range(1, rows.ndim)), keepdim=True) / LARGEST
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    return (rows / scale).round().clamp(-LARGEST, LARGEST).to(torch.int8), scale

"""Weights in fewer bytes: int8 with a scale for each row or group, or bfloat16. Read back as float32.

    W ≈ scale · q,   q = round(W / scale),   scale = max |row of W| / 127

"int8": a matrix has one scale a row, which is an output of a linear layer or a word of an embedding.
"int8-groups": each 32 numbers of a row, the last perhaps fewer, have a scale of their own in bfloat16. One
large number then spoils the steps of 31 others and not of its whole row, for 1/16 more bytes. Rows that are
shorter than a group are bfloat16: they are few, and a flag among two coordinates would leave these no steps.
Vectors (biases, norms, running means) stay as they are: they are few, and everything depends on them.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Encoding = Literal["int8", "int8-groups", "bf16", "float32"]
ENCODINGS: tuple[Encoding, ...] = ("int8", "int8-groups", "bf16", "float32")  # the smallest first
SCALE = ".int8-scale"  # behind the name of the tensor that it scales
GROUP_SCALES = ".int8-group-scales"
GROUP = 32  # numbers that share a scale
LARGEST = 127


def encode(tensors: dict[str, Tensor], encoding: Encoding) -> dict[str, Tensor]:
    """The matrices in fewer bytes, everything else as it is."""
    encoded: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if encoding == "float32" or not tensor.is_floating_point() or tensor.ndim < 2:
            encoded[name] = tensor
        elif encoding == "bf16" or (encoding == "int8-groups" and tensor[0].numel() < GROUP):
            encoded[name] = tensor.bfloat16()
        elif encoding == "int8-groups":
            encoded[name], encoded[name + GROUP_SCALES] = to_int8_groups(tensor)
        else:
            encoded[name], encoded[name + SCALE] = to_int8(tensor)
    return encoded


def decode(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """What `encode` was given, about; tensors that it did not encode come back as they are."""
    return {
        name: _decoded(tensor, tensors.get(name + SCALE), tensors.get(name + GROUP_SCALES))
        for name, tensor in tensors.items()
        if not name.endswith((SCALE, GROUP_SCALES))
    }


def _decoded(tensor: Tensor, scale: Tensor | None, groups: Tensor | None) -> Tensor:
    if scale is not None:
        return tensor.float() * scale
    if groups is not None:
        each = groups.float().repeat_interleave(GROUP, 1)[:, : tensor[0].numel()]
        return tensor.float() * each.reshape(tensor.shape)
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor


def to_int8(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """(R, …) -> (R, …) int8 and (R, 1, …) float32 scales; a row of zeros has the scale 1."""
    rows = tensor.detach().float()
    scale = rows.abs().amax(dim=tuple(range(1, rows.ndim)), keepdim=True) / LARGEST
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    return (rows / scale).round().clamp(-LARGEST, LARGEST).to(torch.int8), scale


def to_int8_groups(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """(R, …) -> (R, …) int8 and (R, groups of a row) bfloat16 scales; a group of zeros has the scale 1."""
    rows = tensor.detach().float().flatten(1)
    groups = torch.unflatten(F.pad(rows, (0, -rows.shape[1] % GROUP)), 1, (-1, GROUP))
    scale = (groups.abs().amax(-1) / LARGEST).bfloat16()
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    numbers = (groups / scale[..., None].float()).round().clamp(-LARGEST, LARGEST).to(torch.int8)
    return numbers.flatten(1)[:, : rows.shape[1]].reshape(tensor.shape).contiguous(), scale

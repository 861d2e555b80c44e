"""Weights in fewer bytes: int8 or int10 with a scale for each row or group, or bfloat16. Read as float32.

    W ≈ scale · q,   q = round(W / scale),   scale = max |row of W| / 127

"int8": a matrix has one scale a row, which is an output of a linear layer or a word of an embedding.
"int8-groups": each 32 numbers of a row, the last perhaps fewer, have a scale of their own in bfloat16. One
large number then spoils the steps of 31 others and not of its whole row, for 1/16 more bytes. Rows that are
shorter than a group are bfloat16: they are few, and a flag among two coordinates would leave these no steps.
"int10-groups": the same with four times as many steps, 511 in the place of 127. The upper eight bits of q are
the tensor; the lower two lie beside it, four numbers a byte. It errs as bfloat16 does, in 2/3 of the bytes.
Vectors (biases, norms, running means) stay as they are: they are few, and everything depends on them.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Encoding = Literal["int8", "int8-groups", "int10-groups", "bf16", "float32"]
# the smallest first
ENCODINGS: tuple[Encoding, ...] = ("int8", "int8-groups", "int10-groups", "bf16", "float32")
SCALE = ".int8-scale"  # behind the name of the tensor that it scales
GROUP_SCALES = ".int8-group-scales"
LOW_BITS = ".int10-low-bits"
GROUP = 32  # numbers that share a scale
LARGEST, LARGEST_OF_10 = 127, 511
BESIDE = (SCALE, GROUP_SCALES, LOW_BITS)  # what belongs to the tensor of the name before it
PLACES = torch.tensor([0, 2, 4, 6], dtype=torch.uint8)  # of two bits in a byte


def encode(tensors: dict[str, Tensor], encoding: Encoding) -> dict[str, Tensor]:
    """The matrices in fewer bytes, everything else as it is."""
    encoded: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if encoding == "float32" or not tensor.is_floating_point() or tensor.ndim < 2:
            encoded[name] = tensor
        elif encoding == "int8":
            encoded[name], encoded[name + SCALE] = to_int8(tensor)
        elif encoding == "bf16" or tensor[0].numel() < GROUP:
            encoded[name] = tensor.bfloat16()
        elif encoding == "int8-groups":
            numbers, encoded[name + GROUP_SCALES] = to_groups(tensor, LARGEST)
            encoded[name] = numbers.to(torch.int8)
        else:
            numbers, encoded[name + GROUP_SCALES] = to_groups(tensor, LARGEST_OF_10)
            encoded[name], encoded[name + LOW_BITS] = (numbers >> 2).to(torch.int8), pack_low_bits(numbers)
    return encoded


def decode(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """What `encode` was given, about; tensors that it did not encode come back as they are."""
    return {
        name: _decoded(tensor, *(tensors.get(name + beside) for beside in BESIDE))
        for name, tensor in tensors.items()
        if not name.endswith(BESIDE)
    }


def _decoded(tensor: Tensor, scale: Tensor | None, groups: Tensor | None, low: Tensor | None) -> Tensor:
    if scale is not None:
        return tensor.float() * scale
    if groups is not None:
        each = groups.float().repeat_interleave(GROUP, 1)[:, : tensor[0].numel()]
        numbers = tensor.float() if low is None else 4 * tensor.float() + unpack_low_bits(low, tensor.shape)
        return numbers * each.reshape(tensor.shape)
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor


def to_int8(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """(R, …) -> (R, …) int8 and (R, 1, …) float32 scales; a row of zeros has the scale 1."""
    rows = tensor.detach().float()
    scale = rows.abs().amax(dim=tuple(range(1, rows.ndim)), keepdim=True) / LARGEST
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    return (rows / scale).round().clamp(-LARGEST, LARGEST).to(torch.int8), scale


def to_groups(tensor: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """(R, …) -> (R, …) whole numbers of at most `largest`, and (R, groups of a row) bfloat16 scales.

    A group of zeros has the scale 1.
    """
    rows = tensor.detach().float().flatten(1)
    groups = torch.unflatten(F.pad(rows, (0, -rows.shape[1] % GROUP)), 1, (-1, GROUP))
    scale = (groups.abs().amax(-1) / largest).bfloat16()
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    numbers = (groups / scale[..., None].float()).round().clamp(-largest, largest).to(torch.int16)
    return numbers.flatten(1)[:, : rows.shape[1]].reshape(tensor.shape).contiguous(), scale


def pack_low_bits(numbers: Tensor) -> Tensor:
    """The lower two bits of whole numbers, four numbers a byte; the last byte is filled up with zeros."""
    bits = (numbers.flatten() & 3).to(torch.uint8)
    return (F.pad(bits, (0, -len(bits) % 4)).view(-1, 4) << PLACES).sum(-1, dtype=torch.uint8)


def unpack_low_bits(packed: Tensor, shape: torch.Size) -> Tensor:
    """What `pack_low_bits` was given, of this shape."""
    return (packed[:, None] >> PLACES & 3).flatten()[: shape.numel()].view(shape)

"""Weights in fewer bytes: int8 or int10 with a scale per row or group, or bfloat16. Decoded to float32.

    W ≈ scale · q,   q = round(W / scale),   scale = max |row of W| / 127

"int8": one scale per row, which is an output of a linear layer or a word of an embedding.
"int8-groups": every 32 numbers of a row (the last group may be shorter) share a bfloat16 scale. An outlier
then costs 31 others their precision, not the row, for 1/16 more bytes. Rows shorter than a group become
bfloat16: they are few, and a flag beside two coordinates, say, would leave those no precision.
"int10-groups": the same with q up to 511 instead of 127. The tensor holds the upper eight bits of q, a second
one the lower two, four numbers per byte. Its error is that of bfloat16, in 2/3 of the bytes.
Vectors (biases, norms, running means) stay unchanged: they are few, and everything depends on them.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Encoding = Literal["int8", "int8-groups", "int10-groups", "bf16", "float32"]
# smallest first
ENCODINGS: tuple[Encoding, ...] = ("int8", "int8-groups", "int10-groups", "bf16", "float32")
SCALE = ".int8-scale"  # suffix to the name of the tensor that it scales
GROUP_SCALES = ".int8-group-scales"
LOW_BITS = ".int10-low-bits"
GROUP = 32  # numbers that share a scale
LARGEST, LARGEST_OF_10 = 127, 511
BESIDE = (SCALE, GROUP_SCALES, LOW_BITS)  # suffixes of companion tensors
PLACES = torch.tensor([0, 2, 4, 6], dtype=torch.uint8)  # bit offsets of four numbers in a byte


def encode(tensors: dict[str, Tensor], encoding: Encoding) -> dict[str, Tensor]:
    """Encode the matrices; everything else stays as it is."""
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
    """Undo `encode`, approximately; tensors that were not encoded are returned unchanged."""
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
    """(R, …) -> (R, …) int8 and (R, 1, …) float32 scales; a row of zeros has scale 1."""
    rows = tensor.detach().float()
    scale = rows.abs().amax(dim=tuple(range(1, rows.ndim)), keepdim=True) / LARGEST
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    return (rows / scale).round().clamp(-LARGEST, LARGEST).to(torch.int8), scale


def to_groups(tensor: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """(R, …) -> (R, …) integers up to ±`largest`, and (R, groups per row) bfloat16 scales.

    A group of zeros has scale 1.
    """
    rows = tensor.detach().float().flatten(1)
    groups = torch.unflatten(F.pad(rows, (0, -rows.shape[1] % GROUP)), 1, (-1, GROUP))
    scale = (groups.abs().amax(-1) / largest).bfloat16()
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    numbers = (groups / scale[..., None].float()).round().clamp(-largest, largest).to(torch.int16)
    return numbers.flatten(1)[:, : rows.shape[1]].reshape(tensor.shape).contiguous(), scale


def pack_low_bits(numbers: Tensor) -> Tensor:
    """The lower two bits of each integer, four numbers per byte; the last byte is zero-padded."""
    bits = (numbers.flatten() & 3).to(torch.uint8)
    return (F.pad(bits, (0, -len(bits) % 4)).view(-1, 4) << PLACES).sum(-1, dtype=torch.uint8)


def unpack_low_bits(packed: Tensor, shape: torch.Size) -> Tensor:
    """Undo `pack_low_bits`, for numbers of this shape."""
    return (packed[:, None] >> PLACES & 3).flatten()[: shape.numel()].view(shape)

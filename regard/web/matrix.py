"""Weights as they travel to the browser; `views/matrix.js` reads them."""

import base64
import zlib
from typing import Any

import torch
from torch import Tensor


def quantize(weights: Tensor) -> tuple[Tensor, float]:
    """Levels from 0 to 255, and the weight that 255 stands for; what is negative or no number is 0."""
    cleaned = weights.float().nan_to_num(0.0, posinf=0.0, neginf=0.0).clamp(min=0.0)
    scale = float(cleaned.max()) if cleaned.numel() else 0.0
    return (cleaned * (255 / (scale or 1.0))).round().byte(), scale or 1.0


def wire(values: Tensor, scale: float, *, compress: bool) -> dict[str, Any]:
    """The JSON object of levels or float32 weights."""
    data = as_bytes(values)
    return {
        "shape": list(values.shape),
        "type": "uint8" if values.dtype == torch.uint8 else "float32",
        "scale": scale,
        **({"compressed": "deflate"} if compress else {}),
        "data": base64.b64encode(zlib.compress(data) if compress else data).decode("ascii"),
    }


def as_bytes(values: Tensor) -> bytes:
    """The numbers of a tensor on the CPU, row by row, as they lie in memory."""
    data = bytearray(values.nbytes)
    if data:
        torch.frombuffer(data, dtype=values.dtype).copy_(values.reshape(-1))
    return bytes(data)


def from_bytes(data: bytes, dtype: torch.dtype = torch.uint8) -> Tensor:
    """(N,) the numbers of such bytes, copied."""
    return torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)

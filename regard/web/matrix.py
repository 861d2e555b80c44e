"""Weights as sent to the browser; read by `views/matrix.js`."""

import base64
import zlib
from typing import Any

import torch
from torch import Tensor

from regard.tensor_bytes import as_bytes


def quantize(weights: Tensor) -> tuple[Tensor, float]:
    """Levels from 0 to 255, and the weight of level 255; negative and non-finite weights become 0."""
    cleaned = weights.float().nan_to_num(0.0, posinf=0.0, neginf=0.0).clamp(min=0.0)
    scale = float(cleaned.max()) if cleaned.numel() else 0.0
    return (cleaned * (255 / (scale or 1.0))).round().byte(), scale or 1.0


def wire(values: Tensor, scale: float, *, compress: bool) -> dict[str, Any]:
    """Levels or float32 weights as a JSON object."""
    data = as_bytes(values)
    return {
        "shape": list(values.shape),
        "type": "uint8" if values.dtype == torch.uint8 else "float32",
        "scale": scale,
        **({"compressed": "deflate"} if compress else {}),
        "data": base64.b64encode(zlib.compress(data) if compress else data).decode("ascii"),
    }

"""Weights as they travel to the browser; `views/matrix.js` reads them."""

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def encode_matrix(weights: NDArray[Any], *, exact: bool = False, compress: bool = False) -> dict[str, Any]:
    """(T, S) -> a JSON object: shape, type, scale, data.

    By default one byte a weight, `round(weight / scale * 255)`, where `scale` is the largest; with `exact`,
    float32. `compress` deflates the bytes.
    """
    if exact:
        return wire(weights.astype("<f4"), 1.0, compress=compress)
    levels, scale = quantize(weights)
    return wire(levels, scale, compress=compress)


def decode_matrix(found: dict[str, Any]) -> NDArray[np.float32]:
    """The weights (T, S) that such an object holds."""
    data = base64.b64decode(found["data"])
    if found.get("compressed"):
        data = zlib.decompress(data)
    if found["type"] == "float32":
        return np.frombuffer(data, "<f4").reshape(found["shape"])
    levels = np.frombuffer(data, np.uint8).reshape(found["shape"])
    return (levels * np.float32(found["scale"] / 255)).astype(np.float32)


def quantize(weights: NDArray[Any]) -> tuple[NDArray[np.uint8], float]:
    """Levels from 0 to 255, and the weight that 255 stands for; what is negative or no number is 0."""
    cleaned = np.nan_to_num(np.asarray(weights, dtype=np.float32), nan=0.0, posinf=0.0, neginf=0.0).clip(0)
    scale = float(cleaned.max(initial=0.0)) or 1.0
    return np.rint(cleaned * np.float32(255 / scale)).clip(0, 255).astype(np.uint8), scale


def wire(values: NDArray[Any], scale: float, *, compress: bool) -> dict[str, Any]:
    """The JSON object of levels or float32 weights."""
    data = values.tobytes()
    return {
        "shape": list(values.shape),
        "type": "uint8" if values.dtype == np.uint8 else "float32",
        "scale": scale,
        **({"compressed": "deflate"} if compress else {}),
        "data": base64.b64encode(zlib.compress(data) if compress else data).decode("ascii"),
    }

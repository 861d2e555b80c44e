"""Weights as they travel to the browser; `views/matrix.js` reads them."""

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def quantize(weights: NDArray[Any]) -> tuple[NDArray[np.uint8], float]:
    """Levels from 0 to 255, and the weight that 255 stands for; what is negative or no number is 0."""
    cleaned = np.array(weights, dtype=np.float32)
    cleaned[~(cleaned > 0) | np.isinf(cleaned)] = 0.0
    scale = float(cleaned.max(initial=0.0)) or 1.0
    return np.rint(np.multiply(cleaned, 255 / scale, out=cleaned)).astype(np.uint8), scale


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

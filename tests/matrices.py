"""Decodes weights sent to the browser, like `regard/web/views/matrix.js`."""

import base64
import zlib

import numpy as np


def decode_matrix(found):
    """The weights (T, S) in a JSON object made by `regard.web.matrix.wire`."""
    data = base64.b64decode(found["data"])
    if found.get("compressed"):
        data = zlib.decompress(data)
    if found["type"] == "float32":
        return np.frombuffer(data, "<f4").reshape(found["shape"])
    levels = np.frombuffer(data, np.uint8).reshape(found["shape"])
    return (levels * np.float32(found["scale"] / 255)).astype(np.float32)

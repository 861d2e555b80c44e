"""Matrices and pictures over the wire.

A matrix is `{"shape", "type", "scale", "data"}`: float32 as it is, or uint8 with
`round(weight / scale * 255)` where `scale` is the largest weight; `data` is base64, of deflated bytes where
`compressed` says so.
"""

import base64
import binascii
import io
import warnings
import zlib
from typing import Any

import torch
from torch import Tensor

from regard.data.images import SMALLEST, Pixels, read_image, to_image
from regard.errors import DataError
from regard.serve.limits import DRAWING_SIDE, FORMATS, PIXELS, SCANS
from regard.serve.problems import Problem, invalid
from regard.tensor_bytes import from_bytes
from regard.viz.weights import to_array
from regard.web.matrix import quantize
from regard.web.matrix import wire as encode

DEFLATED = 4096  # bytes from which a matrix is compressed
SCAN = b"\xff\xda"  # the marker of JPEG before each scan


def matrix(values: Any, *, small: bool = False) -> dict[str, Any] | None:
    """(T, S) weights as float32, or in a byte each where `small`; None for a model without attention."""
    if values is None:
        return None
    array = to_array(values, torch.float32)
    found, scale = quantize(array) if small else (array, 1.0)
    return encode(found, scale, compress=found.nbytes >= DEFLATED)


def read_drawing(shape: list[int], kind: str, data: str, compressed: str | None) -> Tensor:
    """(28, 28) ink of a matrix that came over the wire; the darkest ink is 255."""
    side = DRAWING_SIDE
    if shape != [side, side]:
        raise invalid(f"drawing: `shape` has {shape[:4]}; expected [{side}, {side}].")
    size = side * side * (4 if kind == "float32" else 1)
    raw = _base64(data, "drawing")
    if compressed is not None:
        try:
            raw = zlib.decompressobj().decompress(raw, size + 1)
        except zlib.error:
            raise invalid("drawing: `data` cannot be decompressed; expected deflated bytes.") from None
    if len(raw) != size:
        raise invalid(f"drawing: `data` has another size; expected {size} bytes.")
    dtype = torch.float32 if kind == "float32" else torch.uint8
    values = from_bytes(raw, dtype).view(side, side)
    if kind == "uint8":
        return values
    if not values.isfinite().all():
        raise invalid("drawing: `data` has numbers that are not finite; expected finite ones.")
    values = values.clamp(min=0)
    return (values / (float(values.max()) or 1.0) * 255).round().byte()


def read_picture(data: str, side: int) -> Pixels:
    """(side, side, 3) of a PNG or JPEG file in base64; what the decoder says is not passed on."""
    from PIL import Image

    raw = _base64(data.partition(",")[2] if data.startswith("data:") else data, "picture")
    unreadable = invalid("picture: cannot be read; expected a PNG or JPEG file in base64.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(raw), formats=FORMATS) as opened:
                width, height = opened.size
    except Image.DecompressionBombError:
        width = height = PIXELS
    except Exception:
        raise unreadable from None
    if width * height > PIXELS:
        raise Problem(413, "too_large", f"picture: has too many pixels; expected {PIXELS:,} at most.")
    if raw.count(SCAN) > SCANS:
        raise Problem(413, "too_large", f"picture: has too many scans; expected {SCANS} at most.")
    if min(width, height) < SMALLEST:
        raise invalid(f"picture: has {width} × {height} pixels; expected {SMALLEST} or more a side.")
    try:
        return read_image(raw, side=side)
    except DataError:
        raise unreadable from None


def png(pixels: Pixels) -> str:
    """(H, W, 3) as a PNG file in base64."""
    file = io.BytesIO()
    to_image(pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode("ascii")


def _base64(data: str, owner: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise invalid(f"{owner}: `data` is not valid base64.") from None

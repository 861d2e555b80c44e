"""Tensors in files of NumPy's formats: .npy, which can be mapped, and .npz, an archive of them.

    magic and version, 8 bytes | length of the header | header, a Python dictionary | the numbers, row by row

https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import ast
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.tensor_bytes import from_bytes

MAGIC = b"\x93NUMPY"
KINDS = {
    **{"|b1": torch.bool, "|u1": torch.uint8, "|i1": torch.int8, "<i2": torch.int16, "<i4": torch.int32},
    **{"<i8": torch.int64, "<f2": torch.float16, "<f4": torch.float32, "<f8": torch.float64},
}


def read_npz(path: Path) -> dict[str, Any]:
    """All arrays of an archive as tensors; an array of strings, which has one axis, as a list."""
    with zipfile.ZipFile(path) as archive:
        return {name.removesuffix(".npy"): _read(archive.read(name)) for name in archive.namelist()}


def map_npy(path: Path) -> Tensor:
    """The array of a file, mapped copy-on-write."""
    with path.open("rb") as file:
        kind, shape, start = _header(file.read(1 << 12))
    return _mapped(path, KINDS[kind], shape, start, shared=False)


def make_npy(path: Path, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    """A new file of zeros, mapped: writes to the tensor go to the file."""
    with path.open("wb") as file:
        start = file.write(npy_header(dtype, shape))
        file.truncate(start + math.prod(shape) * dtype.itemsize)
    return _mapped(path, dtype, shape, start, shared=True)


def npy_header(dtype: torch.dtype, shape: Sequence[int]) -> bytes:
    """The bytes that precede the data of an array."""
    kind = next(kind for kind, known in KINDS.items() if known == dtype)
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return MAGIC + b"\1\0" + len(text).to_bytes(2, "little") + text.encode()


def _mapped(path: Path, dtype: torch.dtype, shape: Sequence[int], start: int, *, shared: bool) -> Tensor:
    data = torch.from_file(str(path), shared, path.stat().st_size, dtype=torch.uint8)
    return data[start:].view(dtype).view(tuple(shape))


def _read(content: bytes) -> Tensor | list[str]:
    kind, shape, start = _header(content)
    if kind.startswith("<U"):
        wide = 4 * int(kind[2:])
        texts = (content[at : at + wide] for at in range(start, start + wide * shape[0], wide))
        return [text.decode("utf-32-le").rstrip("\0") for text in texts]
    return from_bytes(content[start:], KINDS[kind]).view(shape)


def _header(content: bytes) -> tuple[str, tuple[int, ...], int]:
    """NumPy's name of the dtype, the shape, and the offset of the data."""
    if content[:6] != MAGIC:
        raise ValueError("no array in NumPy's format")
    first = 10 if content[6] == 1 else 12
    start = first + int.from_bytes(content[8:first], "little")
    found = ast.literal_eval(content[first:start].decode())
    if found["fortran_order"] or not (found["descr"] in KINDS or str(found["descr"]).startswith("<U")):
        raise ValueError(f"an array of type {found['descr']} that is not read here")
    return found["descr"], found["shape"], start

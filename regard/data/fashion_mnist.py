"""Fashion-MNIST: 70,000 grey pictures of 28 × 28 pixels, ten kinds of clothing.

Four files in the IDX format, `train-images-idx3-ubyte.gz` and so on, are read from the folder that
`task.data` or REGARD_DATA names or its subfolder `fashion-mnist/`; else from where the Debian package
`dataset-fashion-mnist` puts them.

    IDX: two zero bytes, the type (8 is a byte), the number of axes; each axis' length, four bytes, largest
    first; the values

Xiao, Rasul, Vollgraf. Fashion-MNIST: a novel image dataset for benchmarking machine learning. 2017.
https://github.com/zalandoresearch/fashion-mnist
"""

import gzip
import math
import struct
from pathlib import Path

from torch import Tensor

from regard.data.folders import find_file, reading
from regard.errors import DataError
from regard.tensor_bytes import from_bytes

HOME = "https://github.com/zalandoresearch/fashion-mnist (or Debian's package dataset-fashion-mnist)."
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
CLASSES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
SIDE = 28
PARTS = {"train": "train", "test": "t10k"}


def find_fashion_mnist(data: str = "") -> Path:
    """The folder that holds the four files."""
    first = f"{PARTS['train']}-images-idx3-ubyte.gz"
    try:
        return find_file("fashion-mnist", [first], data=data, folders=["fashion-mnist"], home=HOME).parent
    except DataError:
        if data or not (DEBIAN / first).exists():
            raise
        return DEBIAN


def read_fashion_mnist(data: str, part: str) -> tuple[Tensor, Tensor]:
    """(N, 28, 28, 3) pictures and (N,) classes of the part `train` or `test`."""
    folder, name = find_fashion_mnist(data), PARTS[part]
    images = read_idx(folder / f"{name}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{name}-labels-idx1-ubyte.gz")
    if images.shape != (len(labels), SIDE, SIDE):
        raise DataError(
            f"{folder}: the {part} part has pictures of shape {tuple(images.shape)} and {len(labels)} "
            f"labels; expected (N, {SIDE}, {SIDE}) and N."
        )
    if len(labels) and labels.max() >= len(CLASSES):
        raise DataError(f"{folder}: has a label of {labels.max()}; expected 0 to {len(CLASSES) - 1}.")
    return images[..., None].expand(-1, -1, -1, 3), labels.long()


def read_idx(path: Path) -> Tensor:
    """An array of bytes from a gzipped IDX file."""
    with reading(path, f"a whole file of {HOME}"), gzip.open(path) as file:
        content = file.read()
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise DataError(f"{path}: has no IDX header for bytes; expected a file of {HOME}")
    axes = content[3]
    start = 4 + 4 * axes
    shape = struct.unpack(f">{axes}I", content[4:start]) if len(content) >= start else ()
    if len(shape) != axes or len(content) - start != math.prod(shape):
        raise DataError(
            f"{path}: has {len(content) - start} values; expected {math.prod(shape)} by its header. "
            "Try copying it again."
        )
    return from_bytes(content[start:]).view(shape)

"""CIFAR-10: 60,000 colour photographs of 32 × 32 pixels in ten classes.

Read from the folder that `task.data` or REGARD_DATA names, or its subfolder `cifar10/`, in one of three
forms:

    cifar10_jpeg.npz            for train and test: `SPLIT_jpeg`, all files concatenated, image i from
                                SPLIT_offsets[i] to SPLIT_offsets[i + 1]; `SPLIT_labels`
    cifar-10-binary.tar.gz      as its authors distribute it
    cifar-10-python.tar.gz      the same; its pickles are read without executing code

The pictures are unpacked once into the cache folder and mapped from there. The packed form may be sorted by
class; its pictures are shuffled, always in the same way, so that any part of them is a fair sample.

Krizhevsky. Learning multiple layers of features from tiny images. 2009.
https://www.cs.toronto.edu/~kriz/cifar.html
"""

import hashlib
import io
import logging
import pickle
import tarfile
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import storage
from regard.data.counter_rng import random_words, unsigned
from regard.data.folders import find_file, reading
from regard.data.images import Pixels, open_image
from regard.data.npy import map_npy, npy_header, read_npz
from regard.errors import DataError
from regard.extras import needs
from regard.storage import cache_folder
from regard.tensor_bytes import as_bytes, from_bytes

PACKED, BINARY, PYTHON = "cifar10_jpeg.npz", "cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"
HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIDE = 32
SPLITS = ("train", "test")
FORMAT = 2  # of the cached files


class Photographs(NamedTuple):
    """One part of the data set."""

    pictures: Pixels  # (N, 32, 32, 3)
    labels: Tensor  # (N,) indices into CLASSES


def read_cifar10(data: str = "") -> tuple[dict[str, Photographs], str]:
    """The parts `train` and `test`, mapped from the cache, and the digest of their source file."""
    names = (PACKED, BINARY, PYTHON)
    path = find_file("cifar10", names, data=data, folders=["cifar10"], home=HOME)
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()[:32]
    folder = cache_folder() / "cifar10"
    files = {
        (split, kind): folder / f"{digest}-{FORMAT}-{split}-{kind}.npy"
        for split in SPLITS
        for kind in Photographs._fields
    }
    if not all(file.exists() for file in files.values()):
        logging.getLogger("regard").info("unpacking %s into %s", path, folder)
        for split, part in _unpack(path).items():
            for kind, array in part._asdict().items():
                with storage.whole(files[split, kind]) as file:
                    file.write(npy_header(array.dtype, array.shape) + as_bytes(array))
    parts = {
        split: Photographs(map_npy(files[split, "pictures"]), map_npy(files[split, "labels"]))
        for split in SPLITS
    }
    return parts, digest


def _unpack(path: Path) -> dict[str, Photographs]:
    with reading(path, "a whole file. Try copying it again.", kind="CIFAR-10"):
        parts = {PACKED: _packed, BINARY: _binary, PYTHON: _python}[path.name](path)
    for split, (pictures, labels) in parts.items():
        if not len(pictures) or pictures.shape[1:] != (SIDE, SIDE, 3) or len(pictures) != len(labels):
            raise DataError(
                f"{path}: {split} has pictures of shape {tuple(pictures.shape)} and {len(labels)} labels; "
                f"expected (N, {SIDE}, {SIDE}, 3), and as many labels."
            )
        if labels.min() < 0 or labels.max() >= len(CLASSES):
            raise DataError(f"{path}: {split} has labels {labels.min()} to {labels.max()}; expected 0 to 9.")
    return parts


def _packed(path: Path) -> dict[str, Photographs]:
    arrays = read_npz(path)
    return {split: _unpack_jpeg(path, split, arrays) for split in SPLITS}


def _unpack_jpeg(path: Path, split: str, arrays: Any) -> Photographs:
    files, offsets = arrays[f"{split}_jpeg"], arrays[f"{split}_offsets"].tolist()
    pictures = torch.empty(len(offsets) - 1, SIDE, SIDE, 3, dtype=torch.uint8)
    for number, (begin, end) in enumerate(pairwise(offsets)):
        owner = f"{path}, {split} image {number}"
        pictures[number] = open_image(as_bytes(files[begin:end]), owner=owner)
    words = random_words(f"cifar10 {split}", range(len(pictures)), 1)[:, 0]
    order = unsigned(words).argsort(stable=True)
    return Photographs(pictures[order], arrays[f"{split}_labels"].long()[order])


def _binary(path: Path) -> dict[str, Photographs]:
    """Rows of a label and three planes of 1,024 bytes: red, green, blue."""
    joined = {split: from_bytes(b"".join(files)) for split, files in _members(path).items()}
    rows = {split: each.reshape(-1, 1 + 3 * SIDE * SIDE) for split, each in joined.items()}
    return {split: Photographs(_planes(each[:, 1:]), each[:, 0].long()) for split, each in rows.items()}


def _python(path: Path) -> dict[str, Photographs]:
    needs("train", "numpy")
    found = {}
    for split, files in _members(path).items():
        batches = [_ArraysAlone(io.BytesIO(file), encoding="bytes").load() for file in files]
        found[split] = Photographs(
            _planes(torch.cat([torch.from_numpy(each[b"data"]) for each in batches])),
            torch.cat([torch.as_tensor(each[b"labels"]).long() for each in batches]),
        )
    return found


class _ArraysAlone(pickle.Unpickler):
    """Reads pickles of plain values and NumPy arrays and refuses any other name in them."""

    ALLOWED = ("_reconstruct", "ndarray", "dtype", "encode")

    def find_class(self, module: str, name: str) -> Any:
        if name not in self.ALLOWED or module.partition(".")[0] not in ("numpy", "_codecs"):
            raise DataError(f"cifar10: a pickle has {module}.{name}; expected only arrays and plain values.")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _members(path: Path) -> dict[str, list[bytes]]:
    """The contents of an archive's batches by split, in the order of their names."""
    found: dict[str, list[bytes]] = {split: [] for split in SPLITS}
    with tarfile.open(path, "r:gz") as archive:
        for member in sorted(archive, key=lambda member: member.name):
            name = member.name.rpartition("/")[2]
            if "_batch" in name and (opened := archive.extractfile(member)) is not None:
                found["test" if "test" in name else "train"].append(opened.read())
    return found


def _planes(rows: Tensor) -> Pixels:
    """(N, 3 · 32 · 32) planes -> (N, 32, 32, 3)."""
    return rows.reshape(-1, 3, SIDE, SIDE).permute(0, 2, 3, 1).contiguous()

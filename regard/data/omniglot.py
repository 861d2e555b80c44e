"""Omniglot: 1,623 characters of 50 alphabets, each drawn by 20 people; 28 × 28 here.

Two forms are read from `task.data` or REGARD_DATA or the subfolder `omniglot/`: the archives as distributed,
`images_background.zip` and `images_evaluation.zip` (downscaled on reading, half a minute); or one file
`omniglot28.npz` with the uint8 arrays `background` (964, 20, 28, 28) and `evaluation` (659, 20, 28, 28), ink
dark.

Lake, Salakhutdinov, Tenenbaum. Human-level concept learning through probabilistic program induction. 2015.
https://doi.org/10.1126/science.aab3050
"""

import zipfile
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from regard.data.folders import find_file, reading
from regard.data.images import from_image
from regard.data.npy import read_npz
from regard.errors import DataError

HOME = "https://github.com/brendenlake/omniglot (python/images_background.zip, images_evaluation.zip)."
PARTS = ("background", "evaluation")
FOLDERS = ("omniglot", "omniglot/python", "python")
SIDE = 28
DRAWINGS = 20  # of each character


def find_omniglot(data: str = "") -> Path:
    """The packed file or the first archive."""
    names = ("omniglot28.npz", "images_background.zip")
    return find_file("omniglot", names, data=data, folders=FOLDERS, home=HOME)


def read_omniglot(data: str = "") -> Tensor:
    """(1623, 20, 28, 28) uint8, ink is 255: the background alphabets, then the evaluation alphabets."""
    return _read(find_omniglot(data))


@lru_cache(maxsize=1)
def _read(path: Path) -> Tensor:
    if path.suffix == ".npz":
        return _packed(path)
    return torch.cat([_archive(path.with_name(f"images_{part}.zip")) for part in PARTS])


def _packed(path: Path) -> Tensor:
    with reading(path, "an .npz file. Try copying it again."):
        arrays = read_npz(path)
    for part in PARTS:
        if part not in arrays:
            raise DataError(f"{path}: the array {part!r} is missing; expected {' and '.join(PARTS)}.")
        images = arrays[part]
        if images.shape[1:] != (DRAWINGS, SIDE, SIDE) or images.dtype != torch.uint8:
            raise DataError(
                f"{path}: {part!r} has shape {tuple(images.shape)} of {images.dtype}; "
                f"expected (classes, {DRAWINGS}, {SIDE}, {SIDE}) of torch.uint8."
            )
    return 255 - torch.cat([arrays[part] for part in PARTS])


def _archive(path: Path) -> Tensor:
    """Every character's drawings from an archive of images, characters sorted by name."""
    from PIL import Image

    classes: dict[str, list[Tensor]] = {}
    with reading(path, f"the archive of {HOME}"), zipfile.ZipFile(path) as archive:
        for name in sorted(name for name in archive.namelist() if name.endswith(".png")):
            with archive.open(name) as file, Image.open(file) as image:
                small = image.convert("L").resize((SIDE, SIDE), Image.Resampling.LANCZOS)
            drawing = 255 - from_image(small)[..., 0]
            classes.setdefault(name.rpartition("/")[0], []).append(drawing)
    wrong = [name for name, drawings in classes.items() if len(drawings) != DRAWINGS]
    if wrong or not classes:
        found = f"{wrong[0]} has {len(classes[wrong[0]])} drawings" if wrong else "no drawings were found"
        raise DataError(f"{path}: {found}; expected {DRAWINGS} of each character, as in {HOME}")
    return torch.stack([torch.stack(drawings) for drawings in classes.values()])

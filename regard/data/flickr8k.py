"""Flickr8k: photographs with five captions each, as distributed or in a packed form.

    Flickr8k.token.txt          per line NAME#NUMBER, a tab and a caption; next to it
                                Flickr_8k.trainImages.txt, …devImages.txt, …testImages.txt, a name per line
    Flicker8k_Dataset/          the photographs, in the folder of those files or next to it

    flickr8k_128_jpeg.npz       `jpeg`: all files concatenated, image i from offsets[i] to offsets[i + 1];
                                `names`; `splits`: train, dev, test
    captions.jsonl.gz           {"image": NAME, "captions": [five sentences]} per line

Hodosh, Young, Hockenmaier. Framing image description as a ranking task. 2013. https://doi.org/10.1613/jair.3994
"""

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from regard.data.folders import find_file, reading
from regard.data.images import Pixels, read_image
from regard.data.npy import read_npz
from regard.data.parallel import stream_lines
from regard.errors import DataError
from regard.tensor_bytes import as_bytes

PICTURES, CAPTIONS = "flickr8k_128_jpeg.npz", "captions.jsonl.gz"
HOME = "https://doi.org/10.1613/jair.3994"
TOKENS = "Flickr8k.token.txt"
FOLDERS = ("flickr8k", "Flickr8k", "Flickr8k_text", "flickr8k/Flickr8k_text")
PHOTOGRAPHS = ("Flicker8k_Dataset", "Flickr8k_Dataset", "Flickr8k_Dataset/Flicker8k_Dataset", "Images", ".")
SPLITS = {"train": "train", "valid": "dev", "test": "test"}  # ours -> the data set's
_WORD = re.compile(r"[a-z0-9]+(?:['-][a-z0-9]+)*")


_find = partial(find_file, "flickr8k", folders=FOLDERS, home=HOME)


def open_flickr8k(data: str = "") -> "Flickr8k":
    """The data set, in the form found in the data folder."""
    found = _find([PICTURES, TOKENS], data=data)
    return Flickr8k(data) if found.name == PICTURES else Flickr8kFiles(found)


class Flickr8k:
    """The photographs, decoded on access, and their captions."""

    def __init__(self, data: str = "") -> None:
        self.pictures_file, self.captions_file = (_find([name], data=data) for name in (PICTURES, CAPTIONS))

    @cached_property
    def _arrays(self) -> dict[str, Any]:
        with reading(self.pictures_file, "jpeg, offsets, names, splits."):
            arrays = read_npz(self.pictures_file)
            return {name: arrays[name] for name in ("jpeg", "offsets", "names", "splits")}

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def names(self) -> list[str]:
        """The file name of each photograph."""
        return self._arrays["names"]

    @cached_property
    def splits(self) -> list[str]:
        """The split of each photograph, as the data set calls it."""
        return self._arrays["splits"]

    def rows(self, split: str) -> list[int]:
        """The indices of a split's photographs."""
        return [row for row, name in enumerate(self.splits) if name == SPLITS[split]]

    def pictures(self, rows: Sequence[int], *, side: int) -> Pixels:
        """(B, side, side, 3)."""
        return torch.stack([read_image(self.file(row), side=side, owner=self.names[row]) for row in rows])

    def file(self, row: int) -> bytes | Path:
        """One photograph: the bytes of its file, or its path."""
        begin, end = self._arrays["offsets"][row : row + 2]
        return as_bytes(self._arrays["jpeg"][begin:end])

    @cached_property
    def captions(self) -> list[list[str]]:
        """The cleaned captions of each photograph, in the order of the photographs."""
        found = self.read_captions()
        missing = [name for name in self.names if not found.get(name)]
        if missing:
            raise DataError(f"{self.captions_file}: has no captions of {missing[0]}; expected one or more.")
        return [found[name] for name in self.names]

    def read_captions(self) -> dict[str, list[str]]:
        """Name -> cleaned captions."""
        found: dict[str, list[str]] = {}
        for number, line in enumerate(stream_lines(self.captions_file), 1):
            try:
                record = json.loads(line)
                found[record["image"]] = [clean(text) for text in record["captions"]]
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise DataError(
                    f"{self.captions_file}, line {number}: has no caption record; expected "
                    '{"image", "captions"}.'
                ) from error
        return found

    def digest(self) -> str:
        """Hash of the file of photographs."""
        with self.pictures_file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()


class Flickr8kFiles(Flickr8k):
    """Flickr8k from the files as distributed; `tokens` is the captions' file."""

    def __init__(self, tokens: Path) -> None:
        self.captions_file = tokens
        listed = [(name, split) for split in SPLITS.values() for name in _names(tokens, split)]
        self.names, self.splits = ([*column] for column in zip(*listed, strict=True))
        places = [folder / name for folder in (tokens.parent, tokens.parent.parent) for name in PHOTOGRAPHS]
        first = self.names[0]
        found = next((place for place in places if (place / first).exists()), None)
        if found is None:
            looked = ", ".join(map(str, places))
            raise DataError(f"flickr8k: no photograph {first} was found in {looked}; expected the data set.")
        self.folder = found

    def file(self, row: int) -> bytes | Path:
        return self.folder / self.names[row]

    def read_captions(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for number, line in enumerate(stream_lines(self.captions_file), 1):
            key, tab, text = line.partition("\t")
            if not tab and line:
                raise DataError(
                    f"{self.captions_file}: line {number} has no tab; expected NAME#NUMBER, a tab, a caption."
                )
            found.setdefault(key.rpartition("#")[0], []).append(clean(text))
        return found

    def digest(self) -> str:
        """Hash of the names and sizes of the photographs."""
        sizes = (f"{name} {(self.folder / name).stat().st_size}\n" for name in self.names)
        return hashlib.sha256("".join(sizes).encode()).hexdigest()


def _names(tokens: Path, split: str) -> list[str]:
    """The photographs of a split, in the order of their list."""
    path = tokens.with_name(f"Flickr_8k.{split}Images.txt")
    names = [line for line in stream_lines(path) if line]
    if not names:
        raise DataError(f"{path}: has no line; expected the name of a photograph a line.")
    return names


def clean(caption: str) -> str:
    """Lower-case words with single spaces and no punctuation, the form in which captions are compared."""
    return " ".join(_WORD.findall(caption.lower()))

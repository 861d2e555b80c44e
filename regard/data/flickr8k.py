"""Flickr8k: photographs with five captions each, in a packed form.

    flickr8k_128_jpeg.npz    `jpeg` all files one after the other; image i is jpeg[offsets[i]:offsets[i + 1]];
                             `names`; `splits`: train, dev, test
    captions.jsonl.gz        {"image": NAME, "captions": [five sentences]} a line

Hodosh, Young, Hockenmaier. Framing image description as a ranking task. 2013. https://doi.org/10.1613/jair.3994
"""

import gzip
import hashlib
import json
import re
import zipfile
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.folders import find_file
from regard.data.images import Pixels, read_image
from regard.errors import DataError

PICTURES, CAPTIONS = "flickr8k_128_jpeg.npz", "captions.jsonl.gz"
HOME = "https://doi.org/10.1613/jair.3994"
SPLITS = {"train": "train", "valid": "dev", "test": "test"}  # ours -> the data set's
_WORD = re.compile(r"[a-z0-9]+(?:['-][a-z0-9]+)*")


class Flickr8k:
    """The photographs, unpacked when they are looked at, and their captions."""

    def __init__(self, data: str = "") -> None:
        where = {"data": data, "folders": ["flickr8k"], "home": HOME}
        self.pictures_file = find_file("flickr8k", [PICTURES], **where)  # type: ignore[arg-type]
        self.captions_file = find_file("flickr8k", [CAPTIONS], **where)  # type: ignore[arg-type]

    @cached_property
    def _arrays(self) -> dict[str, NDArray[np.generic]]:
        try:
            with np.load(self.pictures_file) as arrays:
                return {name: arrays[name] for name in ("jpeg", "offsets", "names", "splits")}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(
                f"{self.pictures_file}: cannot be read ({error}); expected jpeg, offsets, names, splits."
            ) from error

    def __len__(self) -> int:
        return len(self._arrays["names"])

    @cached_property
    def names(self) -> list[str]:
        """The file name of each photograph."""
        return self._arrays["names"].tolist()

    def rows(self, split: str) -> NDArray[np.int64]:
        """The numbers of a split's photographs."""
        return np.flatnonzero(self._arrays["splits"] == SPLITS[split])

    def pictures(self, rows: range | list[int], *, side: int) -> Pixels:
        """(B, side, side, 3)."""
        return np.stack([read_image(self.file(row), side=side, owner=self.names[row]) for row in rows])

    def file(self, row: int) -> bytes:
        """One photograph as it would lie on a disk."""
        begin, end = self._arrays["offsets"][row : row + 2].tolist()
        return self._arrays["jpeg"][begin:end].tobytes()

    @cached_property
    def captions(self) -> list[list[str]]:
        """The cleaned captions of each photograph, in the order of the photographs."""
        found = read_captions(self.captions_file)
        missing = [name for name in self.names if not found.get(name)]
        if missing:
            raise DataError(f"{self.captions_file}: has no captions of {missing[0]}; expected one or more.")
        return [found[name] for name in self.names]

    def digest(self) -> str:
        """Of the photographs' file."""
        with self.pictures_file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()


def read_captions(path: Path) -> dict[str, list[str]]:
    """Image name -> its captions, cleaned."""
    found: dict[str, list[str]] = {}
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = json.loads(line)
                    found[record["image"]] = [clean(text) for text in record["captions"]]
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise DataError(
                        f'{path}, line {number}: has no caption record; expected {{"image", "captions"}}.'
                    ) from error
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error
    return found


def clean(caption: str) -> str:
    """Lower-case words with single spaces, no punctuation: as captions are compared."""
    return " ".join(_WORD.findall(caption.lower()))

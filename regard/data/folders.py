"""Where a data set lies: in the folder that a setting or REGARD_DATA names; what is said of damaged files."""

import lzma
import os
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from regard.errors import DataError

VARIABLE = "REGARD_DATA"
# what damaged archives, arrays and pickles raise when they are read
DAMAGED = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, struct.error),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, pickle.UnpicklingError),
)


def find_file(owner: str, names: Sequence[str], *, data: str, folders: Sequence[str], home: str) -> Path:
    """The first of the files `names`, in the data folder itself or in one of its `folders`.

    `data` is the user's setting, empty for none; `home` tells where the data set can be had.
    """
    root = data or os.environ.get(VARIABLE, "")
    if not root:
        raise DataError(
            f"{owner}: no data folder is given; expected `task.data` or the variable {VARIABLE} to name it. "
            f"The data set is at {home}"
        )
    places = [Path(root), *(Path(root) / folder for folder in folders)]
    for place in places:
        for name in names:
            if (place / name).exists():
                return place / name
    looked = ", ".join(str(place) for place in places)
    raise DataError(
        f"{owner}: no file {' or '.join(names)} was found in {looked}; expected the data set of {home}"
    )


@contextmanager
def reading(path: Path, expected: str, *, kind: str = "") -> Iterator[None]:
    """What goes wrong in this block is that the file, perhaps of a `kind`, is damaged."""
    try:
        yield
    except DataError:
        raise
    except DAMAGED as error:
        reason = getattr(error, "strerror", None) or error
        how = f"cannot be read as {kind}" if kind else "cannot be read"
        raise DataError(f"{path}: {how} ({reason}); expected {expected}") from error

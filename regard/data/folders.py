"""Find data sets in the folder that a setting or REGARD_DATA names; report damaged files."""

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
# raised on reading damaged archives, arrays and pickles
DAMAGED = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, struct.error),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, pickle.UnpicklingError),
)


def find_file(owner: str, names: Sequence[str], *, data: str, folders: Sequence[str], home: str) -> Path:
    """The first of the files `names`, in the data folder itself or in one of its `folders`.

    `data` is the user's setting, or empty; `home` says where to get the data set.
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
    """Turn errors in the block into a DataError: the file, perhaps of a `kind`, is damaged."""
    try:
        yield
    except DataError:
        raise
    except DAMAGED as error:
        reason = getattr(error, "strerror", None) or error
        how = f"cannot be read as {kind}" if kind else "cannot be read"
        raise DataError(f"{path}: {how} ({reason}); expected {expected}") from error

"""Where a data set lies: in the folder that a setting names, else in the one that REGARD_DATA names."""

import os
from collections.abc import Sequence
from pathlib import Path

from regard.errors import DataError

VARIABLE = "REGARD_DATA"


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

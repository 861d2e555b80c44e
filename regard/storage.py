"""Where regard keeps what it can make or fetch again, and how processes share a folder.

The cache is the folder that REGARD_CACHE names, or the platform's own. Whatever goes into it, or into any
folder that others may read, is written under a name of its own (`aside`) and renamed when it is whole.
"""

import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

VARIABLE = "REGARD_CACHE"
LEFT_OVER = 24 * 3600.0  # seconds without a write, after which whoever wrote aside is gone


def cache_folder() -> Path:
    """The folder; it need not exist yet. What lies in it may be deleted at any time."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "regard"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "regard" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def aside(path: Path) -> Path:
    """A hidden name beside `path` that no other process uses: process numbers repeat between containers."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """A file that is there when all is written: whoever is interrupted leaves the old one, or none.

    Its folder is made if it is not there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = aside(path)
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        if error.filename == str(beside):  # whoever reads the message has never heard of it
            error.filename = str(path)
        raise
    finally:
        beside.unlink(missing_ok=True)


def remove_left_over(folder: Path) -> None:
    """Remove what killed processes left under hidden names: all that was not written to for a day."""
    for path in folder.glob(".*.*"):
        with suppress(OSError):  # removed by another process, or not ours to remove
            inside = path.iterdir() if path.is_dir() else ()
            written = max(entry.lstat().st_mtime for entry in (path, *inside))
            if time.time() - written > LEFT_OVER:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait until no other process works in the folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # not on this system
        yield
        return
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

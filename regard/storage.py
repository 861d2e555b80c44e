"""The cache folder, and files that several processes can write safely.

The cache is the folder named by REGARD_CACHE, or the platform's default. Anything written to it, or to any
folder that other processes read, goes to a unique temporary name (`aside`) and is renamed once complete.
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
LEFT_OVER = 24 * 3600.0  # seconds without a write, after which a temporary file's writer is presumed dead


def cache_folder() -> Path:
    """The cache folder, which may not exist yet. Its contents may be deleted at any time."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "regard"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "regard" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def aside(path: Path) -> Path:
    """A hidden name next to `path` that no other process uses; process ids repeat between containers."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def sync(file: BinaryIO) -> None:
    """Flush a file and sync it to disk."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears only once it is complete; an interrupted write leaves the old file, or none.

    Creates its folder if necessary.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = aside(path)
    try:
        with beside.open("wb") as file:
            yield file
            sync(file)
        beside.replace(path)
    except OSError as error:
        if error.filename == str(beside):  # users have never heard of the temporary name
            error.filename = str(path)
        raise
    finally:
        beside.unlink(missing_ok=True)


def remove_left_over(folder: Path) -> None:
    """Remove temporary files and folders of killed processes: those not written to for a day."""
    for path in folder.glob(".*.*"):
        with suppress(OSError):  # removed by another process, or not permitted
            inside = path.iterdir() if path.is_dir() else ()
            written = max(entry.lstat().st_mtime for entry in (path, *inside))
            if time.time() - written > LEFT_OVER:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, waiting for other processes; creates the folder if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # not on this platform
        yield
        return
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

"""Crash-safe writes: a process killed at any moment leaves the old file or the new one, never a part."""

import os
from pathlib import Path

from regard.storage import sync


def write(path: Path, data: bytes) -> None:
    """Write a new file and sync it to disk."""
    with path.open("wb") as file:
        file.write(data)
        sync(file)


def replace(path: Path, content: str | bytes) -> None:
    """Replace a file's content atomically."""
    aside = path.with_name(f".{path.name}.writing")
    try:
        write(aside, content.encode("utf-8") if isinstance(content, str) else content)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries (its file names) to disk."""
    if os.name == "nt":  # Windows cannot open folders, and journals renames
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Sync every file and folder below a folder to disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb+") as file:
                os.fsync(file.fileno())
        elif path.is_dir():
            sync_folder(path)
    sync_folder(folder)

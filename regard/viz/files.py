"""Writes pictures and pages atomically; the suffix of the name decides the format."""

from collections.abc import Sequence
from pathlib import Path

from regard import storage
from regard.errors import ConfigError

PICTURES = (".png", ".svg")


def check_ending(owner: str, path: str | Path, endings: Sequence[str] = PICTURES) -> Path:
    """The path, if its suffix is one of `endings` (ignoring case)."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        known = (" or " if len(endings) < 3 else ", ").join(endings)
        raise ConfigError(f"{owner}: `path` has the ending '{path.suffix}' ({path.name}); expected {known}.")
    return path


def write(path: Path, data: bytes) -> Path:
    """Write a file, completely or not at all."""
    with storage.whole(path) as file:
        file.write(data)
    return path


def write_page(path: Path, html: str) -> Path:
    """Write an HTML page."""
    return write(path, html.encode())

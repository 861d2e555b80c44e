"""Run files with SHA-256 digests, so that damage is noticed when they are read."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError

from regard.errors import DataError
from regard.train import durable, serialization

DIGESTS = "digests.json"


class VerifiedFiles:
    """Files below a run folder; errors name them relative to it."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    def write_files(self, folder: Path, files: Mapping[str, bytes]) -> None:
        """Write the files of a checkpoint and their digests."""
        for name, content in files.items():
            durable.write(folder / name, content)
        digests = {name: [digest(content)] for name, content in files.items()}
        durable.write(folder / DIGESTS, (json.dumps(digests, indent=1) + "\n").encode("utf-8"))
        durable.sync_folder(folder)

    def require_whole(self, folder: Path, name: str) -> None:
        """Raise DataError if a file does not match its digest; earlier versions wrote no digests."""
        if not (folder / DIGESTS).exists():
            return
        expected = self.read_json(folder / DIGESTS, check=False).get(name)
        try:
            whole = isinstance(expected, list) and digest_of_file(folder / name) in expected
        except OSError as error:
            raise self._unreadable(folder / name, error) from error
        if not whole:
            reason = "its SHA-256 digest is not the recorded one"
            if folder == self.path:
                reason += f". Take it from a copy; if you changed it yourself, delete {DIGESTS}"
            raise self._unreadable(folder / name, reason)

    def _unreadable(self, path: Path, reason: Exception | str) -> DataError:
        if isinstance(reason, OSError):
            reason = reason.strerror or str(reason)
        return DataError(f"{self.path}: {path.relative_to(self.path).as_posix()} cannot be read: {reason}.")

    def read_json(self, path: Path, *, check: bool = True) -> dict[str, Any]:
        """Read a file of a checkpoint, or one of the run folder, which `require_run` has verified."""
        if check and path.parent != self.path:
            self.require_whole(path.parent, path.name)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise self._unreadable(path, error) from error
        if not isinstance(content, dict):
            raise self._unreadable(path, "not a JSON object")
        return content

    def read_tensors(self, path: Path) -> serialization.Tensors:
        self.require_whole(path.parent, path.name)
        try:
            return dict(safetensors.torch.load_file(path))
        except (OSError, SafetensorError) as error:
            raise self._unreadable(path, error) from error


def digest(content: str | bytes) -> str:
    """The SHA-256 digest of a text or of bytes."""
    return hashlib.sha256(content.encode("utf-8") if isinstance(content, str) else content).hexdigest()


def digest_of_file(path: Path) -> str:
    """The SHA-256 digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

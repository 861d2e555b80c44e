"""A folder lock: one process owns the folder, and the others wait or are refused.

    owner.json    {"process": 4711, "host": "node3", "boot": "…", "since": "2018-05-01 12:00", "token": "…"}

The owner holds an flock on this file. The system releases it however the process ends, so a reused process id
is harmless. An flock may not be visible on other machines that share the folder, so the owner also touches
the file every few seconds; an owner on another machine is presumed dead after a minute without a touch. If an
owner sleeps longer than that and another machine takes the folder, `require` notices.
"""

import json
import os
import platform
import secrets
import tempfile
import threading
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from regard.errors import DataError

FILE = "owner.json"
BEAT = 10.0  # seconds between touches
GONE = 60.0  # seconds without a touch, after which an owner on another machine is presumed dead

_held: set[int] = set()  # open file descriptors; a forked child must not keep them open


class Taken(DataError):
    """Another process owns the folder."""


class FolderLock:
    """Context manager that owns the folder inside the block; creates it if necessary."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / FILE
        self._token = secrets.token_hex(8)
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            locked = self._lock()
            found = self._read()
            if found is not None and not (locked and found.get("boot") == _boot()) and self._age() < GONE:
                raise self._refusal(found)
            self._write()
        except BaseException:
            os.close(self._file)
            raise
        _held.add(self._file)
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        with suppress(OSError):
            if self._is_ours():
                os.ftruncate(self._file, 0)
        self._unlock()
        _held.discard(self._file)
        os.close(self._file)

    def require(self) -> None:
        """Raise if another machine presumed this process dead and took the folder."""
        if not self._is_ours():
            raise self._refusal(self._read() or {})

    def _lock(self) -> bool:
        """True if no other process on this machine holds the lock; False if the system cannot tell."""
        try:
            import fcntl
        except ImportError:  # not on this platform
            return False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise self._refusal(self._read() or {}) from error
        except OSError:  # a file system without locks
            return False
        return True

    def _unlock(self) -> None:
        """Release the lock explicitly: a child that was just forked may still have the file open."""
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _read(self) -> dict[str, Any] | None:
        """The owner's record; None if the folder is free, empty if the record is unreadable."""
        content = self.path.read_bytes()
        if not content:
            return None
        with suppress(ValueError):
            found = json.loads(content)
            return found if isinstance(found, dict) else {}
        return {}

    def _write(self) -> None:
        record = {
            "process": os.getpid(),
            "host": platform.node(),
            "boot": _boot(),
            "since": f"{datetime.now():%Y-%m-%d %H:%M}",
            "token": self._token,
        }
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, (json.dumps(record) + "\n").encode("utf-8"), 0)

    def _is_ours(self) -> bool:
        return (self._read() or {}).get("token") == self._token

    def _age(self) -> float:
        """Seconds since the owner touched the file, by the file system's clock."""
        with tempfile.TemporaryFile(dir=self.folder) as probe:
            return os.fstat(probe.fileno()).st_mtime - self.path.stat().st_mtime

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            with suppress(OSError):
                os.utime(self.path)

    def _refusal(self, found: dict[str, Any]) -> Taken:
        who = "another process"
        if {"process", "host", "since"} <= found.keys():
            who = f"process {found['process']} on {found['host']}, since {found['since']}"
        return self.refuse(who)

    def refuse(self, who: str) -> Taken:
        """The error to raise when this folder has another owner."""
        return Taken(f"{self.folder}: it is in use by {who}; expected a free folder.")


def _boot() -> str:
    """An id of this boot of the machine, the same in all its containers (their host names differ)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return platform.node()


def _close_in_child() -> None:
    for file in _held:
        with suppress(OSError):
            os.close(file)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)

"""Download a file: streamed to a temporary file, verified, then renamed.

    fetch("https://example.org/train.en.gz", Path("data/train.en.gz"), sha256="d79c…")

A failed download leaves nothing behind, and the next one starts over.
"""

import errno
import hashlib
import logging
import socket
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from regard import storage
from regard.errors import DataError

TIMEOUT = 30.0  # seconds without a byte
CHUNK = 1 << 16
HEADERS = {"User-Agent": "regard (research; Python urllib)"}  # some servers reject urllib's own


def fetch(url: str, path: Path, *, sha256: str | None = None) -> None:
    """Download a file; its SHA-256 digest is checked if `sha256` is given, else logged."""
    try:
        with storage.whole(path) as file:
            digest = _download(url, file)
            if sha256 is not None and digest != sha256:
                raise DataError(
                    f"{url}: the file has the SHA-256 digest {digest}; expected {sha256}. The file "
                    "has changed at its home or was damaged on the way; it is not kept."
                )
    except OSError as error:
        raise _explain(error, url, path) from error
    if sha256 is None:
        logging.getLogger("regard").warning(
            "%s: downloaded, SHA-256 %s (not checked: the file changes from time to time).",
            path,
            digest,
        )


def _download(url: str, file: BinaryIO) -> str:
    """Stream a URL into a file; returns the digest."""
    digest, received = hashlib.sha256(), 0
    try:
        with urlopen(Request(url, headers=HEADERS), timeout=TIMEOUT) as response:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                digest.update(chunk)
                received += len(chunk)
            promised = response.headers.get("Content-Length")
    except HTTPException as error:
        raise DataError(f"{url}: the connection was cut after {received:,} bytes; try again.") from error
    if promised is not None and received < int(promised):
        raise DataError(
            f"{url}: the connection was cut after {received:,} of {int(promised):,} bytes; try again."
        )
    return digest.hexdigest()


def _explain(error: OSError, url: str, path: Path) -> DataError:
    """The message for an error of the server, the network or the local disk."""
    reason: Any = error.reason if isinstance(error, URLError) else error
    if isinstance(error, HTTPError):
        return DataError(f"{url}: the server answered {error.code} ({str(error.reason).lower()}).")
    if isinstance(reason, TimeoutError):
        return DataError(f"{url}: no answer in time; try again, or put the file at {path}.")
    if isinstance(reason, socket.gaierror):
        return DataError(f"{url}: the network cannot be reached; put the file at {path}.")
    if isinstance(error, URLError):
        why = str(getattr(reason, "strerror", None) or reason).lower()
        return DataError(f"{url}: cannot be downloaded ({why}); put the file at {path}.")
    if isinstance(error, ConnectionError):
        return DataError(f"{url}: the connection was cut; try again.")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DataError(
            f"{path}: the disk is full; free some space, or name another folder with REGARD_DATA."
        )
    return DataError(f"{path}: {(error.strerror or str(error)).lower()}.")

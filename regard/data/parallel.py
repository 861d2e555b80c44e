"""Parallel text from two files, one sentence a line: read whole and checked before any of it is used."""

import gzip
from dataclasses import dataclass
from pathlib import Path

from regard.errors import DataError


@dataclass(frozen=True)
class Parallel:
    """Sentence pairs, and how many were left out because a side was empty."""

    pairs: list[tuple[str, str]]
    skipped: int


def read_parallel(source: Path, target: Path) -> Parallel:
    """The pairs of two files, plain or .gz."""
    left, right = read_lines(source), read_lines(target)
    if len(left) != len(right):
        raise DataError(
            f"{source} has {len(left)} lines and {target} has {len(right)}; expected as many, "
            "line n of one the translation of line n of the other."
        )
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a and b]
    if not pairs:
        raise DataError(f"{source}: no line has text on both sides; expected sentence pairs.")
    return Parallel(pairs, len(left) - len(pairs))


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file without surrounding spaces; a line that is not UTF-8 is named."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError) as error:
        raise DataError(f"{path}: not a complete gzip file; expected what its ending says.") from error
    except OSError as error:
        raise DataError(f"{path}: {(error.strerror or str(error)).lower()}.") from error
    return decode_lines(data, str(path))


def decode_lines(data: bytes, name: str) -> list[str]:
    """Bytes as lines of text without surrounding spaces; a line that is not UTF-8 is named."""
    lines = []
    for number, line in enumerate(data.splitlines(), 1):
        try:
            lines.append(line.decode("utf-8-sig" if number == 1 else "utf-8").strip())
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}: line {number} has a byte 0x{line[error.start]:02x} that is not UTF-8; "
                "expected UTF-8 text."
            ) from None
    return lines

"""Sentence pairs streamed from two files, one sentence per line: plain, .gz or .zip (its largest .txt)."""

import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import IO

from regard.errors import DataError

BLOCK = 1 << 16  # bytes of lines decoded at once

Links = tuple[tuple[int, int], ...]  # (source, target), from 0


@dataclass(frozen=True, slots=True)
class Example:
    """One sentence pair as raw text, with `links` between pieces of the two sides if known.

    If `words` are given, the links join those instead of the tokenizer's pieces. `possible` links are those
    that only some annotators saw: neither finding nor missing one is an error.
    """

    source: str
    target: str
    links: Links | None = None
    possible: Links = ()
    words: tuple[tuple[str, ...], tuple[str, ...]] | None = None  # of both sides, from the annotators


class Parallel:
    """The sentence pairs of two files; can be iterated repeatedly, and holds one block of lines at a time.

    Pairs with an empty side are skipped. A complete pass sets `count` and `skipped`.
    """

    def __init__(self, source: Path, target: Path) -> None:
        self.source, self.target = source, target
        self.count = 0  # pairs with text on both sides
        self.skipped = 0
        self.bytes = 0  # of text in these pairs; set by `measure`

    def __iter__(self) -> Iterator[tuple[str, str]]:
        count = lines = 0
        left, right = stream_lines(self.source), stream_lines(self.target)
        for a, b in zip_longest(left, right):
            if a is None or b is None:
                sources, targets = (
                    lines + (line is not None) + sum(1 for _ in rest)
                    for line, rest in ((a, left), (b, right))
                )
                raise DataError(
                    f"{self.source} has {sources} lines and {self.target} has {targets}; expected as many, "
                    "line n of one the translation of line n of the other."
                )
            lines += 1
            if a and b:
                count += 1
                yield a, b
        if not count:
            raise DataError(f"{self.source}: no line has text on both sides; expected sentence pairs.")
        self.count, self.skipped = count, lines - count

    def measure(self) -> None:
        """Read both files, to count their text and check them."""
        self.bytes = sum(len(a.encode()) + len(b.encode()) for a, b in self)


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, stripped; an error names a line that is not UTF-8."""
    return list(stream_lines(path))


def stream_lines(path: Path, strip: Callable[[str], str] = str.strip) -> Iterator[str]:
    """`read_lines` as a stream; `strip` removes the surrounding spaces."""
    try:
        with _open(path) as file:
            number = 0
            while block := file.readlines(BLOCK):
                yield from map(strip, _decode_block(block, number, str(path)))
                number += len(block)
    except RuntimeError as error:  # from zipfile
        raise DataError(
            f"{path}: cannot be read ({error}); expected a zip file without a password."
        ) from error
    except (gzip.BadGzipFile, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        kind = "zip" if path.suffix == ".zip" else "gzip"
        raise DataError(f"{path}: not a complete {kind} file; expected what its ending says.") from error
    except OSError as error:
        raise DataError(f"{path}: {(error.strerror or str(error)).lower()}.") from error


def decode_lines(data: bytes, name: str) -> list[str]:
    """Bytes as lines of text, stripped; an error names a line that is not UTF-8."""
    return [decode_line(line, number, name) for number, line in enumerate(data.splitlines(), 1)]


def _open(path: Path) -> IO[bytes]:
    if "\0" in str(path):
        raise DataError(f"{str(path)!r}: is not a file name.")
    if path.suffix == ".zip":
        packed = zipfile.ZipFile(path)
        texts = [member for member in packed.infolist() if member.filename.endswith(".txt")]
        if not texts:
            raise DataError(f"{path}: has no file that ends in .txt; expected one.")
        return packed.open(max(texts, key=lambda member: member.file_size))
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _decode_block(block: list[bytes], before: int, name: str) -> Iterator[str]:
    """Lines as text, decoded at once if they are valid; `before` lines precede them."""
    try:
        text = b"".join(block).decode("utf-8" if before else "utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" not in text:
        return iter(text.removesuffix("\n").split("\n"))
    return (decode_line(line, number, name) for number, line in enumerate(block, before + 1))


def decode_line(line: bytes, number: int, name: str) -> str:
    """Line `number` of the text `name`, stripped."""
    if b"\0" in line:
        raise DataError(f"{name}: line {number} has a zero byte, as binary files have; expected UTF-8 text.")
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: line {number} has a byte 0x{error.object[error.start]:02x} that is not UTF-8; "
            "expected UTF-8 text."
        ) from None

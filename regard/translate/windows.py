"""Splits lines into windows, in order; inside a window the translator sorts lines by length.

A stream is read ahead in a thread. Its first windows are small, so that the first lines appear soon; if
nothing arrives for a moment, the lines so far become a window.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from typing import IO, TypeVar

from regard.data.parallel import decode_line
from regard.errors import DataError

FIRST, LARGEST = 16, 1024  # lines of the first window, doubling up to the largest
CHARACTERS = 1 << 20  # limit for a window, apart from its last line
PATIENCE = 0.05  # seconds without input until the lines so far become a window
BLOCK, BLOCKS = 1 << 16, 64  # bytes per read, and reads ahead

Item = TypeVar("Item")


@dataclass(frozen=True)
class Window:
    """Lines that are translated in one call."""

    lines: list[str]
    first: int = 1  # 1-based number of the first line


def stream_windows(file: IO[bytes], name: str) -> Iterator[Window]:
    """The lines of a stream in windows; `name` names the stream in errors."""
    blocks = ahead(iter(lambda: file.read(BLOCK), b""), BLOCKS, patience=PATIENCE)
    lines: list[str] = []
    first, most, characters = 1, FIRST, 0
    try:
        for line in _lines(blocks, name):
            if line is not None:
                lines.append(line)
                characters += len(line)
            if lines and (line is None or len(lines) >= most or characters > CHARACTERS):
                yield Window(lines, first)
                first, most = first + len(lines), min(2 * most, LARGEST)
                lines, characters = [], 0
    except DataError:  # in the line after these
        if lines:
            yield Window(lines, first)
        raise
    if lines:
        yield Window(lines, first)


def list_windows(lines: list[str], first: int = 1) -> Iterator[Window]:
    """Lines in windows of the largest size; one empty window if there are no lines."""
    begin = end = characters = 0
    for end, line in enumerate(lines, 1):
        characters += len(line)
        if end - begin == LARGEST or characters > CHARACTERS:
            yield Window(lines[begin:end], first + begin)
            begin, characters = end, 0
    if begin < end or not lines:
        yield Window(lines[begin:end], first + begin)


def ahead(items: Iterable[Item], size: int, *, patience: float | None = None) -> Iterator[Item | None]:
    """The items, produced by a thread up to `size` items ahead.

    None marks a pause: once, when nothing has arrived for `patience` seconds.
    """
    queue: Queue[tuple[Item | None, BaseException | None]] = Queue(size)
    end = StopIteration()

    def fill() -> None:
        try:
            for item in items:
                queue.put((item, None))
            queue.put((None, end))
        except BaseException as error:
            queue.put((None, error))

    # a thread that waits for unneeded input must not keep the process alive
    Thread(target=fill, daemon=True).start()
    waits = patience
    while True:
        try:
            item, error = queue.get(timeout=waits)
        except Empty:
            waits = None
            yield None
            continue
        if error is end:
            return
        if error is not None:
            raise error
        waits = patience
        yield item


def _lines(blocks: Iterable[bytes | None], name: str) -> Iterator[str | None]:
    """Split blocks into lines; a pause (None) stays a pause."""
    number, begun = 1, list[bytes]()
    for block in blocks:
        if block is None:
            yield None
            continue
        *whole, rest = block.split(b"\n")
        for line in whole:
            yield decode_line(b"".join((*begun, line)), number, name)
            number, begun = number + 1, []
        if rest:
            begun.append(rest)
    if begun:
        yield decode_line(b"".join(begun), number, name)

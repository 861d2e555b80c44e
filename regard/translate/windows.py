"""Lines in windows, which come one after another in order; the translator sorts the lines inside by length.

A stream is read ahead in a thread of its own. Its first windows are small, so that the first lines come out
soon; when nothing more comes for a moment, what there is makes a window.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from typing import IO, TypeVar

from regard.data.parallel import decode_line
from regard.errors import DataError

FIRST, LARGEST = 16, 1024  # lines of the first window, twice as many in each that follows, and of the last
CHARACTERS = 1 << 20  # of a window, but for its last line
PATIENCE = 0.05  # seconds without a byte, after which a window is not waited for
BLOCK, BLOCKS = 1 << 16, 64  # bytes that are read at once, and how often while others translate

Item = TypeVar("Item")


@dataclass(frozen=True)
class Window:
    """Lines that are translated together."""

    lines: list[str]
    first: int = 1  # number of the first line, counted from 1


def stream_windows(file: IO[bytes], name: str) -> Iterator[Window]:
    """The lines of a stream; `name` is what a complaint calls it."""
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
    except DataError:  # of the line behind these
        if lines:
            yield Window(lines, first)
        raise
    if lines:
        yield Window(lines, first)


def list_windows(lines: list[str], first: int = 1) -> Iterator[Window]:
    """Lines that are there already, in windows of the largest size; of no lines one empty window."""
    begin = end = characters = 0
    for end, line in enumerate(lines, 1):
        characters += len(line)
        if end - begin == LARGEST or characters > CHARACTERS:
            yield Window(lines[begin:end], first + begin)
            begin, characters = end, 0
    if begin < end or not lines:
        yield Window(lines[begin:end], first + begin)


def ahead(items: Iterable[Item], size: int, *, patience: float | None = None) -> Iterator[Item | None]:
    """The items, made in a thread that is at most `size` items ahead.

    None stands for a pause: once, when nothing has come for `patience` seconds.
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

    # a thread that waits for input nobody needs any more must not keep the process
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
    """The blocks cut at line breaks; a pause stays a pause."""
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

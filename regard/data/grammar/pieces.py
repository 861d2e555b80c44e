"""The smallest unit of the grammar: a few English words with their translations and word links."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")
Words = tuple[str, ...]
# A target word and the English positions it is linked to, relative to the start of the piece.
LinkedWord = tuple[str, tuple[int, ...]]
Linked = tuple[LinkedWord, ...]
# Target words, and the source position that their links are relative to.
Part = tuple[Linked, int]


class Piece(NamedTuple):
    """A run of English words with its French and Chinese translations."""

    english: Words
    french: Linked
    chinese: Linked


def linked(text: str) -> Linked:
    """Parse target words with the English positions they are linked to: "à/0 la/1 maison/1".

    Negative positions point at English words before the piece.
    """
    items = (item.partition("/") for item in text.split())
    return tuple((word, tuple(int(p) for p in positions.split(",") if p)) for word, _, positions in items)


def piece(english: str, french: str, chinese: str) -> Piece:
    """Make a piece from English words and two linked translations (see :func:`linked`)."""
    return Piece(tuple(english.split()), linked(french), linked(chinese))


def moved(words: Linked, distance: int) -> Linked:
    """The same words, with links shifted by this distance."""
    return tuple((word, tuple(source + distance for source in sources)) for word, sources in words)


def by_length(items: Iterable[tuple[int, Item]]) -> dict[int, tuple[Item, ...]]:
    """Group items by their number of English words."""
    found: dict[int, list[Item]] = {}
    for length, item in items:
        found.setdefault(length, []).append(item)
    return {length: tuple(same) for length, same in found.items()}


def table(name: str) -> list[list[str]]:
    """The rows of words/NAME.txt, split into columns at |."""
    text = (Path(__file__).parent / "words" / f"{name}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [[column.strip() for column in line.split("|")] for line in lines]

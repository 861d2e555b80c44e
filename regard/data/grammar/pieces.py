"""The smallest unit of the grammar: a few English words with their translations and word links."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")
Words = tuple[str, ...]
# A target word and the English positions it comes from, counted from where the piece begins.
LinkedWord = tuple[str, tuple[int, ...]]
Linked = tuple[LinkedWord, ...]
# Target words, and the source position their links count from.
Part = tuple[Linked, int]


class Piece(NamedTuple):
    """A run of English words with its French and its Chinese translation."""

    english: Words
    french: Linked
    chinese: Linked


def linked(text: str) -> Linked:
    """Read target words that carry the English positions they come from: "à/0 la/1 maison/1".

    Positions may be negative: they then point at English words that stand before the piece.
    """
    items = (item.partition("/") for item in text.split())
    return tuple((word, tuple(int(p) for p in positions.split(",") if p)) for word, _, positions in items)


def piece(english: str, french: str, chinese: str) -> Piece:
    """Make a piece from English words and two linked translations (see :func:`linked`)."""
    return Piece(tuple(english.split()), linked(french), linked(chinese))


def moved(words: Linked, distance: int) -> Linked:
    """The same words, linked to English words that stand so many places further on."""
    return tuple((word, tuple(source + distance for source in sources)) for word, sources in words)


def by_length(items: Iterable[tuple[int, Item]]) -> dict[int, tuple[Item, ...]]:
    """Items by their number of English words."""
    found: dict[int, list[Item]] = {}
    for length, item in items:
        found.setdefault(length, []).append(item)
    return {length: tuple(same) for length, same in found.items()}


def table(name: str) -> list[list[str]]:
    """The rows of words/NAME.txt, cut into columns at each |."""
    text = (Path(__file__).parent / "words" / f"{name}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [[column.strip() for column in line.split("|")] for line in lines]

"""The smallest unit of the grammar: a few English words with their translations and word links."""

from pathlib import Path
from typing import NamedTuple

Words = tuple[str, ...]
Links = tuple[tuple[int, int], ...]
# Target words, their links relative to both beginnings, and the source position the links count from.
Part = tuple[Words, Links, int]


class Piece(NamedTuple):
    """A run of English words with its French and its Chinese translation."""

    english: Words
    french: Words
    french_links: Links
    chinese: Words
    chinese_links: Links


def linked(text: str) -> tuple[Words, Links]:
    """Read target words that carry the English positions they come from.

    ``"à/0 la/1 maison/1"`` gives the three words and the links (0, 0), (1, 1), (1, 2). Positions may be
    negative: they then point at English words that stand before the piece.
    """
    words: list[str] = []
    links: list[tuple[int, int]] = []
    for target, item in enumerate(text.split()):
        word, _, positions = item.partition("/")
        words.append(word)
        links.extend((int(source), target) for source in positions.split(",") if positions)
    return tuple(words), tuple(links)


def piece(english: str, french: str, chinese: str) -> Piece:
    """Make a piece from English words and two linked translations (see :func:`linked`)."""
    return Piece(tuple(english.split()), *linked(french), *linked(chinese))


def moved(links: Links, source: int, target: int) -> Links:
    """Shift links by a number of source words and a number of target words."""
    return tuple((s + source, t + target) for s, t in links)


def table(name: str) -> list[list[str]]:
    """The rows of words/NAME.txt, cut into columns at each |."""
    text = (Path(__file__).parent / "words" / f"{name}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [[column.strip() for column in line.split("|")] for line in lines]

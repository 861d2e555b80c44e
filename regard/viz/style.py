"""One look for every picture: palette, shades, and how words are shortened and measured."""

import re
from collections.abc import Iterable, Sequence

from regard.viz.letters import CJK, lay

INK = "#1d232b"  # words and numbers
QUIET = "#66707c"  # captions, ticks
RULE = "#c9d0d8"  # frames
GRID = "#e9edf1"  # lines between cells
GOLD = "#d55e00"  # gold links; the strongest contrast to the blues for every kind of colour vision

# Okabe and Ito's colours, darkest first, so that the first two also differ when printed in grey
LINES = ("#0b5394", "#d55e00", "#009e73", "#a0528a", "#e69f00", "#56b4e9", "#4d4d4d")

LONGEST = 24  # characters of a label before it is shortened

_SIGNS = str.maketrans({"\n": "↵", "\r": "↵", "\t": "⇥"})


class Shades(tuple[str, ...]):
    """256 colours, from the least value to the largest."""

    @classmethod
    def between(cls, stops: Sequence[tuple[float, str]]) -> "Shades":
        """Colours that change evenly from each stop to the next; stops lie from 0 to 1."""
        colours = []
        for level in range(256):
            part = level / 255
            i = max(k for k, (place, _) in enumerate(stops[:-1]) if place <= part)
            (low, left), (high, right) = stops[i], stops[i + 1]
            share = (part - low) / (high - low)
            mixed = (a + (b - a) * share for a, b in zip(_parts(left), _parts(right), strict=True))
            colours.append("#" + bytes(round(each) for each in mixed).hex())
        return cls(colours)

    def at(self, part: float) -> str:
        """The colour of a value from 0 to 1."""
        return self[max(0, min(255, int(part * 256)))]


def _parts(colour: str) -> bytes:
    """Red, green and blue."""
    return bytes.fromhex(colour[1:])


# white is zero; lightness falls evenly, so that the map also reads in grey
STOPS = ("#ffffff", "#d9e9f6", "#a6cbe8", "#63a3d3", "#2a74b5", "#0f4a8a", "#08264f")
WEIGHTS = Shades.between([(i / 6, colour) for i, colour in enumerate(STOPS)])


def label(word: str) -> str:
    """The word as it is written beside a picture: one line, visible, not too long."""
    shown = word.translate(_SIGNS)
    if not shown.strip():
        return "␣"
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 8] + "…" + shown[-7:]


def width(words: Iterable[str], size: float) -> float:
    """The widest of the words, in inches, written at `size` points; 0 for none."""
    return max((lay(word)[1] for word in words), default=0.0) * size / 72


def wrap(text: str, size: float, limit: float) -> list[str]:
    """Lines of at most `limit` inches; Chinese breaks between characters, other text between words."""
    lines: list[str] = []
    for piece in re.findall(rf"{CJK.pattern}|[^\s\u2e80-\u9fff\uff00-\uffef]+\s*|\s+", text):
        if lines and width([(lines[-1] + piece).rstrip()], size) <= limit:
            lines[-1] += piece
        elif piece.strip():
            lines.append(piece)
    return [line.rstrip() for line in lines]

"""The look of all pictures: palette, shades, shortened labels, text widths."""

import re
from collections.abc import Iterable, Sequence

from regard.viz.letters import CJK, lay

INK = "#1d232b"  # text and numbers
QUIET = "#66707c"  # captions, ticks
RULE = "#c9d0d8"  # frames
GRID = "#e9edf1"  # lines between cells
GOLD = "#d55e00"  # gold links; contrasts with blue for every kind of colour vision

# Okabe and Ito's colours; the darkest come first, so that the first two also differ in greyscale
LINES = ("#0b5394", "#d55e00", "#009e73", "#a0528a", "#e69f00", "#56b4e9", "#4d4d4d")

LONGEST = 24  # longest label, in characters

_SIGNS = str.maketrans({"\n": "↵", "\r": "↵", "\t": "⇥"})


class Shades(tuple[str, ...]):
    """256 colours, from the smallest value to the largest."""

    @classmethod
    def between(cls, stops: Sequence[tuple[float, str]]) -> "Shades":
        """Colours interpolated linearly between stops, which are (position from 0 to 1, colour)."""
        colours = []
        for level in range(256):
            part = level / 255
            i = max(k for k, (place, _) in enumerate(stops[:-1]) if place <= part)
            (low, left), (high, right) = stops[i], stops[i + 1]
            share = (part - low) / (high - low)
            both = zip(bytes.fromhex(left[1:]), bytes.fromhex(right[1:]), strict=True)
            mixed = (a + (b - a) * share for a, b in both)
            colours.append("#" + bytes(round(each) for each in mixed).hex())
        return cls(colours)

    def at(self, part: float) -> str:
        """The colour of a value from 0 to 1."""
        return self[max(0, min(255, int(part * 256)))]


# zero is white; lightness falls evenly, so that the map also works in greyscale
STOPS = ("#ffffff", "#d9e9f6", "#a6cbe8", "#63a3d3", "#2a74b5", "#0f4a8a", "#08264f")
WEIGHTS = Shades.between([(i / 6, colour) for i, colour in enumerate(STOPS)])


def label(word: str) -> str:
    """A word as a label: one line, with visible whitespace, shortened if necessary."""
    shown = word.translate(_SIGNS)
    if not shown.strip():
        return "␣"
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 8] + "…" + shown[-7:]


def width(words: Iterable[str], size: float) -> float:
    """The width of the widest word at `size` points, in inches; 0 if there are none."""
    return max((lay(word)[1] for word in words), default=0.0) * size / 72


def wrap(text: str, size: float, limit: float) -> list[str]:
    """Wrap to lines of at most `limit` inches; Chinese breaks between characters, other text at spaces."""
    lines: list[str] = []
    for piece in re.findall(rf"{CJK.pattern}|[^\s\u2e80-\u9fff\uff00-\uffef]+\s*|\s+", text):
        if lines and width([(lines[-1] + piece).rstrip()], size) <= limit:
            lines[-1] += piece
        elif piece.strip():
            lines.append(piece)
    return [line.rstrip() for line in lines]

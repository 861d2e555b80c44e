"""Spacing rules for joining words, by language; and the base class of all ways to cut text."""

import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

_NO_BREAK = "\u00a0"
_CLOSING = frozenset({*".,)]}…’”%›", "'s"})  # no space before
_OPENING = frozenset("([{“‘‹$#¿¡")  # none after
_GLUE = frozenset({*"/_@"})  # none on either side
_HIGH = frozenset("?!;:")
_ORDINALS = {"en": {"st", "nd", "rd", "th", "s"}, "fr": {"er", "re", "e", "ère", "ème"}}
_CONTRACTED = frozenset({"ll", "ve", "d", "re"})  # follow a plural's apostrophe without a space
# in Chinese, quotes, dashes and dots have no spaces either
_CJK = re.compile("[“”‘’…—\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


class Spacing:
    """Joins pieces into text, with a language's rules for where no space goes."""

    def __init__(self, language: str) -> None:
        self.language = language.lower().replace("_", "-").split("-")[0]
        french = self.language == "fr"
        self._spaced_closing = _HIGH | {"»", "%"} if french else frozenset()
        self._spaced_opening = frozenset("«") if french else frozenset()
        self._closing = _CLOSING | _HIGH | {"»"}
        self._opening = _OPENING | {"«"}

    def join(self, pieces: Sequence[str]) -> str:
        shapes = _directed_quotes(pieces)
        words = [self.language != "zh" and shape.isalpha() for shape in shapes]
        text = "".join(pieces[:1])
        for i in range(1, len(pieces)):
            # fast path: most gaps are between two words, where no rule applies
            text += (" " if words[i - 1] and words[i] else self._gap(shapes, i)) + pieces[i]
        return text

    def _gap(self, shapes: Sequence[str], i: int) -> str:
        left, right = shapes[i - 1], shapes[i]
        if self.language == "zh" and (_CJK.match(left[-1]) or _CJK.match(right[0])):
            return ""
        if {left, right} & _GLUE or self._elided(left, right):
            return ""
        if self._within_number(shapes, i) or _within_initials(shapes, i):
            return ""
        if left in self._spaced_opening:
            return _NO_BREAK
        if right in self._spaced_closing:
            return "" if {left, right} <= _HIGH else _NO_BREAK
        return "" if left in self._opening or right in self._closing else " "

    def _elided(self, left: str, right: str) -> bool:
        if not left.endswith("'"):
            return False
        plural = self.language == "en" and left.lower().endswith("s'")
        return not plural or right in _CONTRACTED

    def _within_number(self, shapes: Sequence[str], i: int) -> bool:
        """Whether the gap is inside 3.14, 1,000, 10:30, 2nd or covid-19, which the word pattern splits."""
        left, right = shapes[i - 1], shapes[i]
        if left.isdigit() and right in _ORDINALS.get(self.language, ()):
            return True
        middle = i if right in (".", ",", ":", "-") else i - 1
        if not 0 < middle < len(shapes) - 1:
            return False
        before, mark, after = shapes[middle - 1 : middle + 2]
        if mark == "-":
            return before.isdigit() or after.isdigit()
        if not (before.isdigit() and after.isdigit()):
            return False
        # "in 2014, 20 people" is a list in English, "1,5 million" a number in French
        return mark in (".", ":") or (mark == "," and (self.language == "fr" or len(after) == 3))


def _within_initials(shapes: Sequence[str], i: int) -> bool:
    """Whether the gap is inside U.S. or p.m.: a dot between two letters, the second with a dot as well."""
    around = shapes[max(i - 2, 0) : i + 2]
    if len(around) < 4:
        return False
    return around[1] == around[3] == "." and all(len(x) == 1 and x.isalpha() for x in (around[0], around[2]))


def _directed_quotes(pieces: Sequence[str]) -> list[str]:
    """Replace straight quotes with “ ” and ‘ ’, which alternate between opening and closing."""
    shapes = {'"': cycle("“”"), "'": cycle("‘’")}
    return [next(shapes[piece]) if piece in shapes else piece for piece in pieces]


class Cutter:
    """How one kind of tokenizer cuts text into vocabulary pieces and joins them again."""

    def __init__(self, language: str) -> None:
        self._spacing = Spacing(language)

    def cut(self, text: str) -> list[str]:
        """The pieces of a text."""
        return self.located(text)[0]

    def located(self, text: str) -> tuple[list[str], list[tuple[int, int]]]:
        """The pieces, and for each the span of characters that it covers, even in part."""
        raise NotImplementedError

    def cut_words(self, words: Sequence[str]) -> tuple[list[str], list[tuple[int, ...]]]:
        """The pieces of the given words, and for each piece the words it is part of."""
        # spaced like raw text, from which the pieces were learnt
        text = self._spacing.join(words)
        pieces, places = self.located(text)
        return pieces, owners(places, spans(text, words))

    def numbers(self, texts: list[str], known: Mapping[str, int]) -> list[list[int]]:
        """The ids of each text's pieces."""
        unknown = known["<unk>"]
        return [[known.get(piece, unknown) for piece in self.cut(text)] for text in texts]

    def join(self, pieces: Sequence[str]) -> str:
        """Raw text of pieces."""
        return "".join(pieces)

    def show(self, piece: str) -> str:
        """A vocabulary piece in readable form."""
        return piece

    def hide(self, shown: str) -> str:
        """The inverse of `show`."""
        return shown

    def settings(self) -> dict[str, Any]:
        """What the JSON file stores besides the vocabulary."""
        return {}


def spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """The span of each word in the text that `Spacing.join` made of them, which adds only spaces."""
    found, end = [], 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        found.append((start, end))
    return found


def owners(pieces: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """For each piece the words it overlaps; both are sorted spans of one text."""
    found: list[tuple[int, ...]] = []
    first = 0
    for start, end in pieces:
        while first < len(words) and words[first][1] <= start:
            first += 1
        last = first
        while last < len(words) and words[last][0] < end:
            last += 1
        found.append(tuple(range(first, last)))
    return found

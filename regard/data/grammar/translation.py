"""Conjunctions, and the order of clauses in each language."""

from typing import NamedTuple

from regard.data.grammar.clauses import Layout, assembled, chinese_parts, french_parts, question_source
from regard.data.grammar.pieces import Part, piece, table
from regard.data.grammar.spelling import elide

CONJUNCTIONS = {"": piece("", "", "")} | {key: piece(*texts) for key, *texts in table("conjunctions")}

# Conjunction, its position, and the following clause.
Segment = tuple[str, int, Layout]
ENDINGS = {".": (".", "。"), "?": ("?", "？"), "": ("", "")}


class Sentence(NamedTuple):
    """A laid-out English sentence, not yet translated."""

    source: list[str]
    segments: list[Segment]
    ending: str


def _french(sentence: Sentence) -> list[Part]:
    parts: list[Part] = []
    if sentence.ending == "?":
        asked = question_source(sentence.segments[0][2], len(sentence.source) - 1)
        parts.append(((("est-ce", (0,)), ("que", (0,))), asked))
    for name, base, layout in sentence.segments:
        parts.append((CONJUNCTIONS[name].french, base))
        french_parts(layout, parts)
    return parts


_WHEN = (("的", (0,)), ("时候", (0,)))


def _chinese(sentence: Sentence) -> list[Part]:
    parts: list[Part] = []
    begin = 0  # where the previous clause begins
    although = -1
    for name, base, layout in sentence.segments:
        if name in ("when", "if"):
            moved: list[Part] = [((("如果", (0,)),), base)] if name == "if" else []
            chinese_parts(layout, moved)
            if name == "when":
                moved.append((_WHEN, base))
            moved.append(((("，", ()),), base))
            parts[begin:begin] = moved
            continue
        parts.append((CONJUNCTIONS[name].chinese, base))
        if although >= 0:
            parts.append(((("但是", (0,)),), although))
            although = -1
        begin = len(parts)
        chinese_parts(layout, parts)
        if name == "When":
            parts.append((_WHEN, base))
        elif name == "Although":
            although = base
    if sentence.ending == "?":
        asked = question_source(sentence.segments[0][2], len(sentence.source) - 1)
        parts.append(((("吗", (0,)),), asked))
    return parts


def translate(sentence: Sentence, language: str) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """The target words of a sentence and its sorted links."""
    french = language == "fr"
    parts = _french(sentence) if french else _chinese(sentence)
    if sentence.ending:
        mark = ENDINGS[sentence.ending][0 if french else 1]
        parts.append((((mark, (0,)),), len(sentence.source) - 1))
    words, links = assembled(parts)
    links.sort()
    return tuple(elide(words) if french else words), tuple(links)

"""Clauses: slots filled with realised pieces, laid out in English and ordered for French and Chinese."""

from typing import Literal, NamedTuple, Optional

from regard.data.grammar.phrases import Phrase
from regard.data.grammar.pieces import Links, Part, Piece
from regard.data.grammar.verbs import FRONTED, Group

# Where Chinese puts a phrase that stands at the end in English.
Position = Literal["front", "before", "after verb", "after object"]


class Relative(NamedTuple):
    """A relative clause: "who ...", "that ..." or "which ..."."""

    english: str
    french: str
    clause: "Clause"


class Clause(NamedTuple):
    """All that a clause may hold; what is absent is None."""

    group: Group
    subject: Phrase | None = None
    subject_relative: Relative | None = None
    object: Phrase | None = None
    object_relative: Relative | None = None
    adjunct: Piece | None = None
    position: Position = "before"
    first: Piece | None = None
    last: Piece | None = None


class Layout(NamedTuple):
    """Where each slot of a clause begins in the English sentence."""

    clause: Clause
    first: int
    auxiliary: int
    subject: int
    subject_relative: Optional["Layout"]
    group: int
    object: int
    object_relative: Optional["Layout"]
    adjunct: int
    last: int


def lay_out(clause: Clause, source: list[str]) -> Layout:
    """Write the English clause at the end of ``source`` and say where its slots begin."""
    group, subject, subject_relative, thing, object_relative, adjunct, _, first, last = clause
    first_at = len(source)
    if first:
        source += first.english
    auxiliary_at = len(source)
    if group.auxiliary:
        source.append(group.auxiliary)
    subject_at = len(source)
    subject_layout = object_layout = None
    if subject:
        source += subject.english
        if subject_relative:
            source.append(subject_relative.english)
            subject_layout = lay_out(subject_relative.clause, source)
    group_at = len(source)
    source += group.english
    object_at = len(source)
    if thing:
        source += thing.english
        if object_relative:
            source.append(object_relative.english)
            object_layout = lay_out(object_relative.clause, source)
    adjunct_at = len(source)
    if adjunct:
        source += adjunct.english
    last_at = len(source)
    if last:
        source += last.english
    before = first_at, auxiliary_at, subject_at, subject_layout
    return Layout(clause, *before, group_at, object_at, object_layout, adjunct_at, last_at)


def _resolved(links: Links, layout: Layout) -> Links:
    """Links of a verb group whose auxiliary was moved before the subject."""
    distance = layout.auxiliary - layout.group
    return tuple((distance if source == FRONTED else source, target) for source, target in links)


def question_source(layout: Layout, end: int) -> int:
    """The English word that makes the clause a question: "do", or else the question mark."""
    return layout.auxiliary if layout.clause.group.auxiliary in ("do", "does", "did") else end


def french_parts(layout: Layout, parts: list[Part]) -> None:
    """Append the French words of a clause; the order is the English one."""
    group, subject, subject_relative, thing, object_relative, adjunct, _, first, last = layout.clause
    if first:
        parts.append((first.french, first.french_links, layout.first))
    if subject:
        parts.append((subject.french, subject.french_links, layout.subject))
        if subject_relative and layout.subject_relative:
            _french_relative(subject_relative, layout.subject_relative, parts)
    links = _resolved(group.french_links, layout) if group.auxiliary else group.french_links
    parts.append((group.french, links, layout.group))
    if thing:
        parts.append((thing.french, thing.french_links, layout.object))
        if object_relative and layout.object_relative:
            _french_relative(object_relative, layout.object_relative, parts)
    if adjunct:
        parts.append((adjunct.french, adjunct.french_links, layout.adjunct))
    if last:
        parts.append((last.french, last.french_links, layout.last))


def _french_relative(relative: Relative, layout: Layout, parts: list[Part]) -> None:
    parts.append(((relative.french,), ((-1, 0),), layout.first))
    french_parts(layout, parts)


def chinese_parts(layout: Layout, parts: list[Part]) -> None:
    """Append the Chinese words of a clause: time, place and company come before the verb."""
    group, subject, _, thing, _, adjunct, position, first, last = layout.clause
    if first:
        parts.append((first.chinese, first.chinese_links, layout.first))
    if last and not subject:
        parts.append((last.chinese, last.chinese_links, layout.last))
    if adjunct and position == "front":
        parts.append((adjunct.chinese, adjunct.chinese_links, layout.adjunct))
    if subject:
        _chinese_phrase(subject, layout.subject, layout.subject_relative, parts, full=False)
        if last:
            parts.append((last.chinese, last.chinese_links, layout.last))
    if group.before:
        links = _resolved(group.before_links, layout) if group.auxiliary else group.before_links
        parts.append((group.before, links, layout.group))
    if adjunct and position == "before":
        parts.append((adjunct.chinese, adjunct.chinese_links, layout.adjunct))
    if group.chinese:
        links = _resolved(group.chinese_links, layout) if group.auxiliary else group.chinese_links
        parts.append((group.chinese, links, layout.group))
    if adjunct and position == "after verb":
        parts.append((adjunct.chinese, adjunct.chinese_links, layout.adjunct))
    if thing:
        _chinese_phrase(thing, layout.object, layout.object_relative, parts, full=True)
    if adjunct and position == "after object":
        parts.append((adjunct.chinese, adjunct.chinese_links, layout.adjunct))


def _chinese_phrase(
    phrase: Phrase, base: int, relative: Layout | None, parts: list[Part], full: bool
) -> None:
    """A noun phrase; its relative clause stands between the determiner and the noun and ends in 的."""
    if relative:
        if phrase.bare_determiner:
            parts.append((phrase.bare_determiner, phrase.bare_determiner_links, base))
        chinese_parts(relative, parts)
        parts.append((("的",), ((-1, 0),), relative.first))
    elif full:
        if phrase.full_determiner:
            parts.append((phrase.full_determiner, phrase.full_determiner_links, base))
    elif phrase.determiner:
        parts.append((phrase.determiner, phrase.determiner_links, base))
    parts.append((phrase.chinese, phrase.chinese_links, base))


def assembled(parts: list[Part]) -> tuple[list[str], list[tuple[int, int]]]:
    """The target words of all parts in a row, with links between whole sentences."""
    words: list[str] = []
    links: list[tuple[int, int]] = []
    for tokens, relative, base in parts:
        offset = len(words)
        words += tokens
        links += [(source + base, target + offset) for source, target in relative]
    return words, links

"""Clauses: slots filled with pieces, laid out in English and reordered for French and Chinese."""

from typing import Literal, NamedTuple, Optional

from regard.data.grammar.phrases import Phrase
from regard.data.grammar.pieces import Linked, Part, Piece
from regard.data.grammar.verbs import Group

# The position in Chinese of a phrase that comes last in English.
Position = Literal["front", "before", "after verb", "after object"]


class Relative(NamedTuple):
    """A relative clause: "who ...", "that ..." or "which ..."."""

    english: str
    french: str
    clause: "Clause"


class Clause(NamedTuple):
    """All parts of a clause; absent ones are None."""

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
    """A clause, and the start of each slot in the English sentence."""

    clause: Clause
    begins: dict[str, int]
    subject_relative: Optional["Layout"]
    object_relative: Optional["Layout"]


def lay_out(clause: Clause, source: list[str]) -> Layout:
    """Append the English clause to ``source`` and record where its slots begin."""
    begins: dict[str, int] = {}

    def write(slot: str, filled: Piece | Phrase | Group | None) -> None:
        begins[slot] = len(source)
        if filled:
            source.extend(filled.english)

    def write_relative(relative: Relative | None) -> Layout | None:
        if relative is None:
            return None
        source.append(relative.english)
        return lay_out(relative.clause, source)

    write("first", clause.first)
    begins["auxiliary"] = len(source)
    if clause.group.auxiliary:
        source.append(clause.group.auxiliary)
    write("subject", clause.subject)
    subject_relative = write_relative(clause.subject_relative)
    write("group", clause.group)
    if clause.group.auxiliary:
        distance = begins["auxiliary"] - begins["group"]
        clause = clause._replace(group=clause.group.fronted(distance))
    write("object", clause.object)
    object_relative = write_relative(clause.object_relative)
    write("adjunct", clause.adjunct)
    write("last", clause.last)
    return Layout(clause, begins, subject_relative, object_relative)


def clause_length(clause: Clause) -> int:
    """The number of English words in a clause."""
    words: list[str] = []
    lay_out(clause, words)
    return len(words)


def question_source(layout: Layout, end: int) -> int:
    """The position of the English word that marks a question: "do", or else the question mark."""
    return layout.begins["auxiliary"] if layout.clause.group.auxiliary in ("do", "does", "did") else end


def french_parts(layout: Layout, parts: list[Part]) -> None:
    """Append the French words of a clause, in English order."""
    clause, begins = layout.clause, layout.begins

    def put(slot: str, filled: Piece | Phrase | Group | None) -> None:
        if filled:
            parts.append((filled.french, begins[slot]))

    def put_relative(relative: Relative | None, inside: Layout | None) -> None:
        if relative and inside:
            parts.append((((relative.french, (-1,)),), inside.begins["first"]))
            french_parts(inside, parts)

    put("first", clause.first)
    put("subject", clause.subject)
    put_relative(clause.subject_relative, layout.subject_relative)
    put("group", clause.group)
    put("object", clause.object)
    put_relative(clause.object_relative, layout.object_relative)
    put("adjunct", clause.adjunct)
    put("last", clause.last)


def chinese_parts(layout: Layout, parts: list[Part]) -> None:
    """Append the Chinese words of a clause: time, place and company precede the verb."""
    group, subject, _, thing, _, adjunct, position, first, last = layout.clause
    begins = layout.begins

    def put_adjunct(here: Position) -> None:
        if adjunct and position == here:
            parts.append((adjunct.chinese, begins["adjunct"]))

    if first:
        parts.append((first.chinese, begins["first"]))
    if last and not subject:
        parts.append((last.chinese, begins["last"]))
    put_adjunct("front")
    if subject:
        _chinese_phrase(subject, subject.determiner, begins["subject"], layout.subject_relative, parts)
        if last:
            parts.append((last.chinese, begins["last"]))
    parts.append((group.before, begins["group"]))
    put_adjunct("before")
    parts.append((group.chinese, begins["group"]))
    put_adjunct("after verb")
    if thing:
        _chinese_phrase(thing, thing.full_determiner, begins["object"], layout.object_relative, parts)
    put_adjunct("after object")


def _chinese_phrase(
    phrase: Phrase, determiner: Linked, base: int, relative: Layout | None, parts: list[Part]
) -> None:
    """A noun phrase; a relative clause goes between determiner and noun, and ends in 的."""
    parts.append((phrase.bare_determiner if relative else determiner, base))
    if relative:
        chinese_parts(relative, parts)
        parts.append(((("的", (-1,)),), relative.begins["first"]))
    parts.append((phrase.chinese, base))


def assembled(parts: list[Part]) -> tuple[list[str], list[tuple[int, int]]]:
    """Concatenate the target words of all parts, with links for the whole sentence."""
    words: list[str] = []
    links: list[tuple[int, int]] = []
    for run, base in parts:
        for word, sources in run:
            # A place begins with 在; after 正在 it would be repeated.
            if word != "在" or not words or words[-1] not in ("正在", "在"):
                words.append(word)
            target = len(words) - 1
            links += [(source + base, target) for source in sources]
    return words, links

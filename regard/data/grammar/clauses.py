"""Clauses: slots filled with realised pieces, laid out in English and ordered for French and Chinese."""

from typing import Literal, NamedTuple, Optional

from regard.data.grammar.phrases import Phrase
from regard.data.grammar.pieces import Linked, Part, Piece
from regard.data.grammar.verbs import Group

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
    """A clause, and where each of its slots begins in the English sentence."""

    clause: Clause
    begins: dict[str, int]
    subject_relative: Optional["Layout"]
    object_relative: Optional["Layout"]


def lay_out(clause: Clause, source: list[str]) -> Layout:
    """Write the English clause at the end of ``source`` and say where its slots begin."""
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
    """The number of its English words."""
    words: list[str] = []
    lay_out(clause, words)
    return len(words)


def question_source(layout: Layout, end: int) -> int:
    """The English word that makes the clause a question: "do", or else the question mark."""
    return layout.begins["auxiliary"] if layout.clause.group.auxiliary in ("do", "does", "did") else end


def french_parts(layout: Layout, parts: list[Part]) -> None:
    """Append the French words of a clause; the order is the English one."""
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
    """Append the Chinese words of a clause: time, place and company come before the verb."""
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
    """A noun phrase; its relative clause stands between the determiner and the noun and ends in 的."""
    parts.append((phrase.bare_determiner if relative else determiner, base))
    if relative:
        chinese_parts(relative, parts)
        parts.append(((("的", (-1,)),), relative.begins["first"]))
    parts.append((phrase.chinese, base))


def assembled(parts: list[Part]) -> tuple[list[str], list[tuple[int, int]]]:
    """The target words of all parts in a row, with links between whole sentences."""
    words: list[str] = []
    links: list[tuple[int, int]] = []
    for run, base in parts:
        for word, sources in run:
            # A place begins with 在, which 正在 before it already holds.
            if word != "在" or not words or words[-1] not in ("正在", "在"):
                words.append(word)
            target = len(words) - 1
            links += [(source + base, target) for source in sources]
    return words, links

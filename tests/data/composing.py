"""Sentences from explicit choices instead of random ones: the same grammar, for examples and tests."""

from regard.data.grammar.adjuncts import DURATIONS, TIMES, beside, place, time_first
from regard.data.grammar.choosing import frame_group, in_place
from regard.data.grammar.clauses import Clause, Position, Relative, lay_out
from regard.data.grammar.corpus import Language, Pair
from regard.data.grammar.frames import FRAME_NAMED
from regard.data.grammar.phrases import Choice, Mode, phrase
from regard.data.grammar.pieces import Piece
from regard.data.grammar.states import located
from regard.data.grammar.translation import CONJUNCTIONS, Segment, Sentence, translate
from regard.data.grammar.verbs import GroupChoice, group

_TIMES = {" ".join(time.english): time for times in TIMES.values() for time in times}
_DURATIONS = {" ".join(duration.english): duration for duration in DURATIONS}


def noun(determiner: str, *words: str, plural: bool = False) -> Choice:
    """The choice of a noun phrase: a determiner, adjectives and the key of the noun, as in the lexicon."""
    return determiner, words[:-1], words[-1], plural


def name(word: str) -> Choice:
    """The choice of a name or of a subject pronoun."""
    return "", (), word, False


def action(
    subject: str | Choice | None,
    frame: str,
    tense: str,
    thing: str | Choice | None = None,
    *,
    negative: bool = False,
    adverb: str = "",
    pronoun: str = "",
    where: str = "",
    adjective: str = "",
    beside_whom: tuple[str, Choice] | None = None,
    duration: str = "",
    first: str = "",
    last: str = "",
    question: bool = False,
    who: Relative | None = None,
    which: Relative | None = None,
    agreement: int = -1,
) -> Clause:
    """A clause in which ``subject`` does what the frame says; without a subject it is a relative clause."""
    entry = FRAME_NAMED[frame]
    if isinstance(subject, str):
        subject = name(subject)
    if isinstance(thing, str):
        thing = ("fixed", (), thing, False)
    realised = phrase(subject) if subject else None
    if realised:
        agreement = realised.agreement
    mode: Mode = "negative" if negative and entry.mode == "plain" else entry.mode
    verb = frame_group(frame, tense, negative, agreement, adverb, pronoun, question)
    adjunct: Piece | None = None
    position: Position = "before"
    if where:
        adjunct, position = in_place(entry, place(where, adjective))
    elif duration:
        adjunct, position = _DURATIONS[duration], "after object"
    elif beside_whom:
        adjunct = beside(*beside_whom)
        position = "after verb" if beside_whom[0] == "given" else "before"
    return Clause(
        verb,
        realised,
        who,
        phrase(thing, mode) if thing else None,
        which,
        adjunct,
        position,
        time_first(_TIMES[first]) if first else None,
        _TIMES[last] if last else None,
    )


def who(clause: Clause) -> Relative:
    """ "who ..." about the subject of the clause, which is left out."""
    return Relative("who", "qui", clause)


def that(
    subject: str | Choice, verb: str, chinese: str, tense: str, head: Choice, style: str = ""
) -> Relative:
    """ "that she bought" about ``head``, the object of the verb."""
    realised = phrase(name(subject) if isinstance(subject, str) else subject)
    preceding = phrase(head).agreement
    choice = GroupChoice(verb, tense, False, realised.agreement, chinese, style=style, preceding=preceding)
    return Relative("that", "que", Clause(group(choice), realised))


def which_is(where: str, head: Choice) -> Relative:
    """ "which is on the table" about ``head``."""
    bare = in_place(FRAME_NAMED["go"], place(where))[0]
    return Relative("which", "qui", Clause(located(phrase(head).agreement), adjunct=bare))


def pair(language: Language, *clauses: tuple[str, Clause] | Clause, ending: str = ".") -> Pair:
    """A sentence of clauses; all but the first come with the conjunction that stands before them."""
    source: list[str] = []
    segments: list[Segment] = []
    for item in clauses:
        conjunction, clause = ("", item) if isinstance(item, Clause) else item
        before = len(source)
        source += CONJUNCTIONS[conjunction].english
        segments.append((conjunction, before, lay_out(clause, source)))
    if ending:
        source.append(ending)
    target, links = translate(Sentence(source, segments, ending), language)
    return Pair(tuple(source), target, links, language)

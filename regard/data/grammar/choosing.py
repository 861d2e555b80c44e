"""Random clauses of an exact English length: who does what, with embedded relative clauses."""

from bisect import bisect
from functools import cache
from typing import NamedTuple

from regard.data.grammar.adjuncts import (
    DURATIONS,
    TIMES,
    beside,
    places_by_length,
    time_first,
    without_zai,
)
from regard.data.grammar.clauses import Clause, Position, Relative
from regard.data.grammar.frames import (
    FRAME_GROUPS,
    FRAME_NAMED,
    FRAMES,
    PLACES_OF_THINGS,
    THING_RELATIVES,
    Frame,
)
from regard.data.grammar.lexicon import FEMININE_NAMES, NAMES, SINGULAR_ONLY
from regard.data.grammar.phrases import (
    HE,
    OBJECT_PRONOUNS,
    POSSESSIVE,
    THEY,
    THEY_FEMININE,
    UNKNOWN_GENDER,
    WE,
    YOU,
    Choice,
    I,
    Mode,
    Phrase,
    phrase,
)
from regard.data.grammar.pieces import Item, Piece
from regard.data.grammar.planning import (
    PERSONS,
    Plan,
    Random,
    Situation,
    lengths,
    object_policy,
    plans,
    subject_pool,
)
from regard.data.grammar.pools import NAME, OWNER, objects, subjects
from regard.data.grammar.states import located
from regard.data.grammar.verbs import VERBS, Group, GroupChoice, group

_NAMES = tuple(NAMES)
_ATTEMPTS = 12
# Objects excluded for a subject: "I see me", "we see me".
_SAME = {I: frozenset({"me", "us"}), WE: frozenset({"me", "us"}), YOU: frozenset({"you"})}
# Several people wear several hats: "a hat" becomes "their hats".
_PLURAL = frozenset({WE, THEY, THEY_FEMININE})
PLURAL_DETERMINERS = {"a": OWNER, OWNER: OWNER, "the": "the", "this": "these", "that": "those"}
_PRONOUNS = tuple(OBJECT_PRONOUNS)
_ADVERBS = ("often", "often", "always", "sometimes")


class Action(NamedTuple):
    """A clause, and what the rest of the sentence must know about it."""

    clause: Clause
    frame: Frame
    agreement: int
    negative: bool
    timed: bool
    taken: tuple[str, ...]


def pick(random: Random, items: tuple[Item, ...]) -> Item:
    """A uniformly random item."""
    return items[int(random() * len(items))]


class _Candidate:
    """A frame that can yield a clause of some length; its requirements are looked up once."""

    __slots__ = ("_plans", "_situation", "frame", "length", "mode", "objects", "subjects", "weights")

    def __init__(self, frame: Frame, situation: Situation, length: int) -> None:
        tense, negative = situation.tense, situation.negative
        self.frame = frame
        self.length = length
        self.mode: Mode = "negative" if negative and frame.mode == "plain" else frame.mode
        self.subjects = subjects(subject_pool(frame, tense, negative))
        self.objects = objects(frame.objects, object_policy(frame, tense, negative)) if frame.objects else {}
        self.weights: tuple[float, ...] = ()
        self._situation = situation
        self._plans: tuple[Plan, ...] | None = None

    def draw(self, random: Random) -> Plan | None:
        """Draw a plan for the clause by weight; computed lazily, since most candidates never need one."""
        if self._plans is None:
            self._plans, self.weights = plans(self._situation, self.length)
        if not self._plans:
            return None
        weights = self.weights
        return self._plans[bisect(weights, random() * weights[-1], 0, len(weights) - 1)]


@cache
def _candidates(
    tense: str, negative: bool, subject: str, times: int, length: int, person: int, only: str
) -> tuple[_Candidate, ...]:
    """The frames that can yield a clause of this length, repeated by weight.

    ``only`` names a group of frames. A ``person`` of 1 or 2 excludes what only others do (1), and also what
    would reveal an unknown gender (2).
    """
    found: list[_Candidate] = []
    for index, frame in enumerate(FRAMES):
        if tense not in (frame.negatives if negative else frame.tenses):
            continue
        if subject != "free" and frame.subject not in PERSONS:
            continue
        if only and frame.name not in FRAME_GROUPS[only]:
            continue
        if person == 2 and tense == "past" and VERBS[frame.verb].with_être:
            continue
        if person and frame.subject == "owner":
            continue
        situation = Situation(index, tense, negative, subject, times)
        if length in lengths(situation):
            found += [_Candidate(frame, situation, length)] * frame.weight
    return tuple(found)


def _settled(random: Random, choice: Choice, agreement: int, avoid: tuple[str, ...]) -> Choice:
    """Fill in a concrete possessive or name if the pool leaves it open."""
    determiner = choice[0]
    if determiner == OWNER:
        return (POSSESSIVE[agreement], *choice[1:])
    if determiner == NAME:
        names = FEMININE_NAMES if choice[2] == "dress" else _NAMES
        name = pick(random, names)
        while name in avoid:
            name = pick(random, names)
        return (name, *choice[1:])
    return choice


def _pick_other(random: Random, items: tuple[Choice, ...], avoid: tuple[str, ...]) -> Choice:
    """A random noun phrase whose noun or name is not in the clause yet."""
    count = len(items)
    for _ in range(8):
        choice = items[int(random() * count)]
        for word in _taken(choice):
            if word in avoid:
                break
        else:
            break
    return choice


@cache
def _taken(choice: Choice) -> tuple[str, ...]:
    """The noun or names of a phrase, which should not recur in the clause."""
    determiner, _, noun, _ = choice
    if determiner in NAMES:
        return determiner, noun
    return (noun,) if determiner else (*noun.split(" and "), noun)


def choose_action(
    random: Random,
    length: int,
    tense: str,
    negative: bool,
    *,
    subject: Choice | None = None,
    agreement: int = -1,
    times: int = 2,
    question: bool = False,
    avoid: tuple[str, ...] = (),
    only: str = "",
) -> Action | None:
    """A clause of ``length`` words in which somebody does something; None if there is none.

    A ``subject`` is used as it is; an ``agreement`` without one means a relative clause about the subject.
    """
    kind = "given" if subject else "none" if agreement >= 0 else "free"
    if subject:
        agreement = phrase(subject).agreement
    person = 2 if agreement in UNKNOWN_GENDER else int(agreement == WE)
    candidates = _candidates(tense, negative, kind, times, length, person, only)
    if not candidates:
        return None
    for _ in range(_ATTEMPTS):
        candidate = candidates[int(random() * len(candidates))]
        plan = candidate.draw(random)
        if plan:
            action = _filled(random, candidate, tense, negative, plan, subject, agreement, question, avoid)
            if action:
                return action
    return None


@cache
def frame_group(
    name: str, tense: str, negative: bool, agreement: int, adverb: str, pronoun: str, question: bool
) -> Group:
    """The verb group of the frame with this name."""
    frame = FRAME_NAMED[name]
    verb = GroupChoice(frame.verb, tense, negative, agreement, frame.chinese, frame.particle, frame.tail)
    return group(verb._replace(adverb=adverb, pronoun=pronoun, question=question, style=frame.style))


def _filled(
    random: Random,
    candidate: _Candidate,
    tense: str,
    negative: bool,
    plan: Plan,
    subject: Choice | None,
    agreement: int,
    question: bool,
    avoid: tuple[str, ...],
) -> Action | None:
    frame = candidate.frame
    who: Phrase | None = None
    subject_relative = None
    if plan.subject == "plain":
        if subject is None:
            pool = subjects(subject_pool(frame, tense, True)) if question else candidate.subjects
            if plan.subject_length not in pool:
                return None
            subject = _settled(random, _pick_other(random, pool[plan.subject_length], avoid), 0, avoid)
        who = phrase(subject)
    elif plan.subject == "relative":
        indefinite = tense in ("progressive", "past") and not negative and not question
        when = _NOT_NOW if tense in _TENSES_OF_FACT else _ANY_TIME
        head = person_with_relative(random, plan.subject_length, indefinite, frame.verb, when)
        if head is None:
            return None
        subject, subject_relative = head
        who = phrase(subject)
    if who:
        agreement = who.agreement
        if agreement in UNKNOWN_GENDER and tense == "past" and VERBS[frame.verb].with_être:
            return None
        if question and agreement in (I, WE):
            return None
    taken = _taken(subject) if subject else ()
    avoid += taken

    thing: Phrase | None = None
    object_relative = None
    pronoun = ""
    if plan.object == "pronoun":
        pronoun = pick(random, _PRONOUNS)
        if (
            pronoun in avoid
            or pronoun in _SAME.get(agreement, ())
            or (tense == "past" and pronoun in ("me", "you"))
        ):
            return None
    elif plan.object == "relative":
        when = _NOT_NOW if tense in ("past", "present") else _ANY_TIME
        found = _object_with_relative(random, frame, plan.object_length, when, avoid)
        if found is None:
            return None
        choice, object_relative = found
        thing = phrase(choice, frame.mode)
    elif plan.object == "plain":
        choice = _pick_other(random, candidate.objects[plan.object_length], avoid)
        if choice[2] == "dress" and agreement in (HE, THEY) and (choice[0] == OWNER or frame.verb == "wear"):
            return None
        if frame.verb == "wear" and agreement in _PLURAL and not choice[3]:
            if choice[0] == NAME or not SINGULAR_ONLY.isdisjoint(choice[1]):
                return None
            choice = (PLURAL_DETERMINERS[choice[0]], *choice[1:3], True)
        choice = _settled(random, choice, agreement, avoid)
        thing = phrase(choice, candidate.mode)
        avoid += _taken(choice)

    adverb = "never" if plan.time == "never" else pick(random, _ADVERBS) if plan.time == "adverb" else ""
    verb = frame_group(frame.name, tense, negative, agreement, adverb, pronoun, question)
    position: Position = "before"
    adjunct: Piece | None = None
    if plan.adjunct != "none":
        adjunct, position = _adjunct(random, frame, plan, agreement, avoid)
    first = last = None
    timed = plan.time in ("first", "last")
    if timed:
        time = pick(random, _times(tense, plan.time_length - (plan.time == "first"), frame.span))
        first, last = (time_first(time), None) if plan.time == "first" else (None, time)
    clause = Clause(verb, who, subject_relative, thing, object_relative, adjunct, position, first, last)
    return Action(clause, frame, agreement, negative, timed, taken)


@cache
def _times(tense: str, length: int, span: str) -> tuple[Piece, ...]:
    """Time phrases; weeks and years are reserved for rare or long actions."""
    rare = {"day": ("week", "year"), "week": ("year",), "year": ()}[span]
    found = (time for time in TIMES[tense] if len(time.english) == length)
    return tuple(time for time in found if tense == "present" or time.english[-1] not in rare)


def in_place(frame: Frame, place: Piece) -> tuple[Piece, Position]:
    """A place for a frame: the location of an action, or where somebody goes, stays or lives."""
    if frame.destination:
        return place if frame.style == "state" else without_zai(place), "after verb"
    return place, "before"


def _adjunct(
    random: Random, frame: Frame, plan: Plan, owner: int, avoid: tuple[str, ...]
) -> tuple[Piece, Position]:
    kind, length = plan.adjunct, plan.adjunct_length
    if kind in ("place", "destination"):
        places = places_by_length(frame.destination or frame.places)[length]
        return in_place(frame, pick(random, places))
    if kind == "duration":
        return pick(random, tuple(d for d in DURATIONS if len(d.english) == length)), "after object"
    if kind in ("key", "bat"):
        pool = objects(kind, "one")[length - 1]
        return beside("instrument", _settled(random, pick(random, pool), owner, avoid)), "before"
    choice = _settled(
        random, _pick_other(random, objects("person", "definite")[length - 1], avoid), owner, avoid
    )
    if kind == "company":
        return beside("company", choice), "before"
    if frame.verb == "give":
        return beside("given", choice), "after verb"
    return beside("sent", choice), "before"


@cache
def _person_heads(indefinite: bool) -> dict[int, tuple[Choice, ...]]:
    pool = subjects("anyone")
    wanted = ("the", "a") if indefinite else ("the",)
    return {length: tuple(c for c in pool[length] if c[0] in wanted) for length in (2, 3)}


# Nobody can do two things at once, nor do now what is told in the past tense.
_TENSES_OF_FACT = frozenset({"progressive", "present", "past"})
_NOT_NOW = ("present", "past")
_ANY_TIME = ("progressive", "present", "past")


def person_with_relative(
    random: Random,
    length: int,
    indefinite: bool,
    verb: str,
    tenses: tuple[str, ...],
    avoid: tuple[str, ...] = (),
) -> tuple[Choice, Relative] | None:
    """A person with a relative clause, as in "the man who lives in Paris"; ``verb`` is already used."""
    head_length = 2 if length < 6 or random() < 0.7 else 3
    choice = _pick_other(random, _person_heads(indefinite)[head_length], avoid)
    tense = pick(random, tenses)
    agreement = phrase(choice).agreement
    rest = length - head_length - 1
    avoid = (*avoid, choice[2])
    action = choose_action(
        random, rest, tense, False, agreement=agreement, times=0, avoid=avoid, only="relative"
    )
    if action is None or action.frame.verb == verb:
        return None
    return choice, Relative("who", "qui", action.clause)


def thing_with_relative(
    random: Random, choice: Choice, length: int, verb: str, avoid: tuple[str, ...] = ()
) -> Relative | None:
    """A relative clause of ``length`` words about a thing: "that Marie bought", "which is on the table"."""
    noun = choice[2]
    agreement = phrase(choice).agreement
    where = PLACES_OF_THINGS.get(noun)
    if where and random() < 0.4:
        found = places_by_length(where).get(length - 2)
        if found:
            place = without_zai(pick(random, found))
            if place.english[-1] == noun:
                return None
            return Relative("which", "qui", Clause(located(agreement), adjunct=place))
    options = THING_RELATIVES.get(noun)
    if not options:
        return None
    name, chinese, tense, particle, style = pick(random, options)
    if name == verb:
        return None
    pool = subjects("named").get(length - 1 - (2 if tense == "progressive" else 1) - bool(particle))
    if pool is None:
        return None
    who = phrase(_pick_other(random, pool, avoid))
    if noun == "dress" and who.agreement in (HE, THEY) and name == "wear":
        return None
    verb_group = group(
        GroupChoice(name, tense, False, who.agreement, chinese, particle, style=style, preceding=agreement)
    )
    return Relative("that", "que", Clause(verb_group, who))


def _object_with_relative(
    random: Random, frame: Frame, length: int, tenses: tuple[str, ...], avoid: tuple[str, ...]
) -> tuple[Choice, Relative] | None:
    if frame.objects == "person":
        return person_with_relative(random, length, False, frame.verb, tenses, avoid)
    pool = objects(frame.objects, "head")
    head_length = 2 if length < 6 or random() < 0.6 else 3
    choice = pick(random, pool[head_length])
    relative = thing_with_relative(random, choice, length - head_length, frame.verb, avoid)
    return (choice, relative) if relative else None

"""Chooses lengths for the slots of a clause that add up to exactly the requested length."""

from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from regard.data.grammar.adjuncts import DURATIONS, TIMES, places_by_length
from regard.data.grammar.frames import FRAMES, Frame
from regard.data.grammar.phrases import HE
from regard.data.grammar.pools import RELATIVE_SLOTS, objects, subjects
from regard.data.grammar.verbs import GroupChoice, group

Random = Callable[[], float]
# Kind, length, weight.
Option = tuple[str, int, float]
Options = tuple[Option, ...]
# Kinds of subject that do not depend on the tense or negation.
ANY_SUBJECT = frozenset({"young", "adult", "owner", "political"})
# Kinds of subject that are people.
PERSONS = frozenset({"person", "young", "adult", "owner"})


class Plan(NamedTuple):
    """What fills each slot of a clause, with its number of English words."""

    subject: str
    subject_length: int
    object: str
    object_length: int
    adjunct: str
    adjunct_length: int
    time: str
    time_length: int


# Plans, and their cumulative weights.
Table = tuple[tuple[Plan, ...], tuple[float, ...]]


class Situation(NamedTuple):
    """Everything that determines the plans of a frame.

    ``subject`` is "free", "given" (one word) or "none" (in a relative clause); ``times`` is the number of
    positions for a time phrase: none, the end only, or both ends.
    """

    frame: int
    tense: str
    negative: bool
    subject: str
    times: int


_PLAIN_WEIGHT = {1: 5.0, 2: 4.0, 3: 2.5, 4: 1.0, 5: 0.6, 6: 0.4}
_SUBJECT_WEIGHT = {1: 7.0, 2: 4.0, 3: 2.0, 4: 0.7, 5: 0.3}
_RELATIVE_WEIGHT = 0.3
COMPANY_LENGTHS = (2, 3, 4)


def subject_pool(frame: Frame, tense: str, negative: bool) -> str:
    """The kind of subject; only events can introduce somebody new ("a man")."""
    event = tense in ("progressive", "past") and not negative
    if frame.subject == "person":
        return "anyone" if event else "person"
    return frame.subject if event or frame.subject in ANY_SUBJECT else f"{frame.subject} known"


def object_policy(frame: Frame, tense: str, negative: bool) -> str:
    """Which determiners the object may have."""
    if frame.verb == "have":
        return "own not" if negative else "own"
    if tense in ("present", "like"):
        return frame.habit
    if negative and frame.policy in ("event", "purchase", "fresh"):
        return "not"
    if negative and frame.policy == "big purchase":
        return "purchase not"
    return "definite one" if negative and frame.policy == "one" else frame.policy


def _subject_options(frame: Frame, situation: Situation) -> list[Option]:
    if situation.subject == "given":
        return [("plain", 1, 1.0)]
    if situation.subject == "none":
        return [("none", 0, 1.0)]
    pool = subjects(subject_pool(frame, situation.tense, situation.negative))
    options: list[Option] = [("plain", length, _SUBJECT_WEIGHT[length]) for length in pool]
    if frame.subject in PERSONS:
        options += [("relative", length, _RELATIVE_WEIGHT) for length in range(5, 12)]
    return options


def _object_options(frame: Frame, situation: Situation) -> list[Option]:
    if not frame.objects:
        return [("none", 0, 1.0)]
    pool = objects(frame.objects, object_policy(frame, situation.tense, situation.negative))
    options: list[Option] = [("plain", length, _PLAIN_WEIGHT[length]) for length in pool]
    if frame.pronouns:
        options.append(("pronoun", 1, 6.0))
    if situation.subject != "none" and not situation.negative:
        if frame.objects == "person" and situation.tense not in ("present", "like"):
            options += [("relative", length, _RELATIVE_WEIGHT) for length in range(5, 11)]
        elif frame.objects in RELATIVE_SLOTS and situation.tense in ("progressive", "past", "future", "want"):
            options += [("relative", length, _RELATIVE_WEIGHT) for length in range(5, 9)]
    return options


def _adjunct_options(frame: Frame) -> list[Option]:
    if frame.destination:
        return [("destination", length, 1.0) for length in places_by_length(frame.destination)]
    if frame.adjunct in ("duration", "key"):
        lengths = {len(duration.english) for duration in DURATIONS} if frame.adjunct == "duration" else {3, 4}
        return [(frame.adjunct, length, 1.0) for length in sorted(lengths)]
    if frame.adjunct == "receiver":
        return [("receiver", length, 1.0) for length in (2, 3, 4)]
    options: list[Option] = [("none", 0, 4.0)]
    options += [("place", length, 0.8) for length in places_by_length(frame.places)]
    if frame.adjunct == "company":
        options += [("company", length, 0.4) for length in COMPANY_LENGTHS]
    elif frame.adjunct == "bat":
        options += [("bat", 3, 2.0), ("bat", 4, 1.5)]
    return options


def _time_options(frame: Frame, situation: Situation) -> list[Option]:
    options: list[Option] = [("none", 0, 4.0)]
    habit = situation.tense == "present"
    if habit and frame.adverbs:
        options.append(("never", -1, 2.0) if situation.negative else ("adverb", 1, 3.0))
    if frame.times and not (habit and situation.negative):
        lengths = {len(time.english) for time in TIMES[situation.tense]}
        if situation.times >= 1:
            options += [("last", length, 0.8) for length in sorted(lengths)]
        if situation.times >= 2:
            options += [("first", length + 1, 0.8) for length in sorted(lengths)]
    return options


@cache
def _options(situation: Situation) -> tuple[int, Options, Options, Options, Options]:
    """The length of the verb, and the options for subject, object, adjunct and time."""
    frame, tense, negative = FRAMES[situation.frame], situation.tense, situation.negative
    verb = group(GroupChoice(frame.verb, tense, negative, HE, frame.chinese, frame.particle))
    return (
        len(verb.english),
        tuple(_subject_options(frame, situation)),
        tuple(_object_options(frame, situation)),
        tuple(_adjunct_options(frame)),
        tuple(_time_options(frame, situation)),
    )


@cache
def lengths(situation: Situation) -> frozenset[int]:
    """The possible lengths of a clause, before the rules about relative clauses."""
    verb, *slots = _options(situation)
    reached = {verb}
    for options in slots:
        sizes = {size for _, size, _ in options}
        reached = {length + size for length in reached for size in sizes}
    return frozenset(reached)


@cache
def plans(situation: Situation, length: int) -> Table:
    """All plans for a clause of ``length`` English words, and their cumulative weights."""
    return _plans(*_options(situation), length)


@cache
def _plans(verb: int, who: Options, what: Options, where: Options, when: Options, length: int) -> Table:
    found: list[Plan] = []
    weights: list[float] = []
    for thing, object_length, object_weight in what:
        for adjunct, adjunct_length, adjunct_weight in where:
            # A phrase after a relative clause would seem to belong to it.
            if thing == "relative" and adjunct != "none":
                continue
            for time, time_length, time_weight in when:
                if thing == "relative" and time == "last":
                    continue
                rest = length - verb - object_length - adjunct_length - time_length
                for subject, subject_length, subject_weight in who:
                    if subject_length == rest and not (thing == "relative" and subject == "relative"):
                        ends = subject, subject_length, thing, object_length
                        found.append(Plan(*ends, adjunct, adjunct_length, time, time_length))
                        weights.append(subject_weight * object_weight * adjunct_weight * time_weight)
    return tuple(found), tuple(accumulate(weights))

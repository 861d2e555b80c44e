"""All word forms that the grammar can produce, found by realizing all pieces once."""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, product
from typing import Literal

from regard.data.grammar.adjuncts import (
    DURATIONS,
    PLACE_GROUPS,
    TIMES,
    beside,
    places_by_length,
    time_first,
)
from regard.data.grammar.choosing import PLURAL_DETERMINERS, frame_group
from regard.data.grammar.clauses import Clause
from regard.data.grammar.frames import FRAMES, THING_RELATIVES, Frame
from regard.data.grammar.lexicon import NAMES, NOUNS, SINGULAR_ONLY, TOPICS
from regard.data.grammar.phrases import OBJECT_PRONOUNS, POSSESSIVE, WE, YOU, Choice, I, Mode, Phrase, phrase
from regard.data.grammar.pieces import Linked, Piece
from regard.data.grammar.planning import PERSONS, object_policy, subject_pool
from regard.data.grammar.pools import NAME, OWNER, RELATIVE_SLOTS, ByLength, objects, subjects
from regard.data.grammar.scenes import (
    DESCRIBED,
    PLACED,
    QUALITIES_OF_PEOPLE,
    described,
    forecasts,
    new_things,
)
from regard.data.grammar.sentences import COMINGS, REPORTS
from regard.data.grammar.spelling import ELISIONS
from regard.data.grammar.states import (
    STATES,
    WEATHER,
    WITHOUT_GENDER,
    existing,
    having_time,
    located,
    predicate,
)
from regard.data.grammar.translation import CONJUNCTIONS, ENDINGS
from regard.data.grammar.verbs import ADVERBS, VERBS, Group, GroupChoice, group

AnyLanguage = Literal["en", "fr", "zh"]
_AGREEMENTS = range(7)
_UNKNOWN_GENDER = frozenset({I, YOU})
_FIRST_AND_SECOND = frozenset({I, YOU, WE})


def _settled(pool: ByLength) -> Iterator[Choice]:
    """All choices of a pool, with every possessive and name filled in."""
    for choice in chain.from_iterable(pool.values()):
        owners: Iterable[str] = (choice[0],)
        if choice[0] == OWNER:
            owners = POSSESSIVE
        elif choice[0] == NAME:
            owners = NAMES
        for owner in owners:
            yield owner, *choice[1:]


def _said(frame: Frame) -> list[tuple[str, bool]]:
    """The tenses of a frame, with and without negation."""
    return [(tense, False) for tense in frame.tenses] + [(tense, True) for tense in frame.negatives]


def _phrases() -> Iterator[Phrase]:
    wanted: set[tuple[Choice, Mode]] = set()
    for frame in FRAMES:
        for tense, negative in _said(frame):
            wanted |= {
                (choice, "plain") for choice in _settled(subjects(subject_pool(frame, tense, negative)))
            }
            if frame.objects:
                mode: Mode = "negative" if negative and frame.mode == "plain" else frame.mode
                pool = objects(frame.objects, object_policy(frame, tense, negative))
                wanted |= {(choice, mode) for choice in _settled(pool)}
                if frame.verb == "wear":
                    plural = {
                        length: tuple(
                            (PLURAL_DETERMINERS[choice[0]], *choice[1:3], True)
                            for choice in choices
                            if choice[0] in PLURAL_DETERMINERS and SINGULAR_ONLY.isdisjoint(choice[1])
                        )
                        for length, choices in pool.items()
                    }
                    wanted |= {(choice, mode) for choice in _settled(plural)}
        if frame.objects in RELATIVE_SLOTS:
            wanted |= {(choice, frame.mode) for choice in _settled(objects(frame.objects, "head"))}
    wanted |= {(choice, "plain") for choice in _settled(subjects("named"))}
    placed = tuple(chain.from_iterable(PLACED.values()))
    for noun in (*DESCRIBED, *placed, *TOPICS):
        wanted |= {(choice, "plain") for choice in _settled(described(noun))}
    for noun in placed:
        wanted |= {(choice, "plain") for choice in _settled(new_things(noun))}
    return (phrase(choice, mode) for choice, mode in wanted)


def _frame_groups(frame: Frame) -> Iterator[Group]:
    for (tense, negative), agreement in product(_said(frame), _AGREEMENTS):
        if agreement in _FIRST_AND_SECOND and (frame.subject not in PERSONS or frame.subject == "owner"):
            continue
        if agreement in _UNKNOWN_GENDER and tense == "past" and VERBS[frame.verb].with_être:
            continue
        adverbs = [""]
        if tense == "present" and frame.adverbs:
            adverbs += ["never"] if negative else [adverb for adverb in ADVERBS if adverb != "never"]
        pronouns = ("", *OBJECT_PRONOUNS) if frame.pronouns else ("",)
        for adverb, pronoun in product(adverbs, pronouns):
            if not (tense == "past" and pronoun in ("me", "you")):
                yield frame_group(frame.name, tense, negative, agreement, adverb, pronoun, False)
                if not negative:
                    yield frame_group(frame.name, tense, negative, agreement, "", "", True)


def _state_groups() -> Iterator[Group]:
    for agreement, negative in product(_AGREEMENTS, (False, True)):
        yield located(agreement, negative)
        for state in STATES:
            if agreement not in _UNKNOWN_GENDER or state in WITHOUT_GENDER:
                yield predicate(state, agreement, negative)
                yield predicate(state, agreement, False, True)
                if agreement not in _FIRST_AND_SECOND:
                    yield predicate(state, agreement, past=True)
    for noun, entry in NOUNS.items():
        keys = (*entry.predicates, *(QUALITIES_OF_PEOPLE if noun in ("man", "woman") else ()))
        for key, plural in product(keys, (False, True)):
            if entry.plural if plural else entry.singular:
                if plural and key in SINGULAR_ONLY and entry.singular:
                    continue
                agreement = phrase(("the", (), noun, plural)).agreement
                yield from (predicate(key, agreement), predicate(key, agreement, True))


def _groups() -> Iterator[Group]:
    for frame in FRAMES:
        yield from _frame_groups(frame)
    yield from _state_groups()
    yield from (existing(False), existing(True))
    for agreement in range(6):
        yield having_time(agreement)
        for verb, chinese in REPORTS.items():
            yield group(GroupChoice(verb, "present", False, agreement, chinese))
        if agreement not in _UNKNOWN_GENDER:
            for verb, chinese in COMINGS:
                yield group(GroupChoice(verb, "past", False, agreement, chinese, style="state"))
        for noun, relations in THING_RELATIVES.items():
            head = phrase(("the", (), noun, not NOUNS[noun].singular)).agreement
            for verb, chinese, tense, particle, style in relations:
                yield group(
                    GroupChoice(verb, tense, False, agreement, chinese, particle, style=style, preceding=head)
                )
    for weather in WEATHER.values():
        yield from weather
    clauses: Iterable[Clause] = chain.from_iterable(forecasts().values())
    yield from (clause.group for clause in clauses)


def _pieces() -> Iterator[Piece]:
    for name in PLACE_GROUPS:
        yield from chain.from_iterable(places_by_length(name).values())
    for time in chain.from_iterable(TIMES.values()):
        yield time_first(time)
    yield from DURATIONS
    for choice in _settled(objects("person", "definite")):
        yield from (beside(kind, choice) for kind in ("company", "given", "sent"))
    for name in ("key", "bat"):
        yield from (beside("instrument", choice) for choice in _settled(objects(name, "one")))


def _words(*linked: Linked) -> Iterator[str]:
    return (word for word, _ in chain(*linked))


@cache
def _all_words() -> dict[str, frozenset[str]]:
    english: set[str] = {"who", "that", "which", *filter(None, ENDINGS)}
    french: set[str] = {"qui", "que", "est-ce", "s'", *ELISIONS.values()}
    chinese: set[str] = {"的", "时候", "，", "如果", "吗"}
    for french_mark, chinese_mark in ENDINGS.values():
        french.add(french_mark)
        chinese.add(chinese_mark)
    for realised in _phrases():
        english.update(realised.english)
        french.update(_words(realised.french))
        chinese.update(_words(realised.full_determiner, realised.chinese))
    for made in chain(_pieces(), CONJUNCTIONS.values()):
        english.update(made.english)
        french.update(_words(made.french))
        chinese.update(_words(made.chinese))
    for verb in _groups():
        english.update((verb.auxiliary, *verb.english))
        french.update(_words(verb.french))
        chinese.update(_words(verb.before, verb.chinese))
    return {
        language: frozenset(words - {""})
        for language, words in (("en", english), ("fr", french), ("zh", chinese))
    }


def vocabulary(language: AnyLanguage) -> frozenset[str]:
    """All word forms that the grammar can produce in a language, including punctuation."""
    return _all_words()[language]

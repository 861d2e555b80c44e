"""Nouns and adjectives in three languages, with the adjectives that make sense for each noun.

A key such as ``old.thing`` names one sense of an ambiguous English word: the English form is the part before
the dot, and nouns specify which sense they take.
"""

from typing import Literal, NamedTuple

from regard.data.grammar.pieces import Words, table


class Adjective(NamedTuple):
    """One sense of an adjective.

    ``attachment`` says how the Chinese word attaches to a noun: ``de`` with the particle 的, ``bare`` without
    it, ``close`` if it forms a name-like compound that nothing may split. ``predicate`` is the Chinese word
    after a subject (with 很 or 不), or empty for "是 ... 的".
    """

    english: Words
    french: tuple[str, str, str, str]
    french_before_vowel: str
    before_noun: bool
    chinese: Words
    attachment: Literal["de", "bare", "close"]
    predicate: str
    singular_only: bool


class Noun(NamedTuple):
    """A noun; an empty plural marks singular-only nouns, an empty singular plural-only ones."""

    singular: Words
    plural: Words
    french_singular: Words
    french_plural: Words
    feminine: bool
    mass: bool
    chinese: Words
    classifier: str
    traits: tuple[str, ...]
    adjectives: tuple[tuple[str, ...], ...]
    predicates: tuple[str, ...]


def _words(text: str) -> Words:
    return () if text in ("-", "=", "") else tuple(text.split("_"))


def _read_adjectives() -> dict[str, Adjective]:
    read: dict[str, Adjective] = {}
    for key, french, place, chinese, predicate, number in table("adjectives"):
        forms = french.split()
        word, attachment = chinese.split()
        assert attachment in ("de", "bare", "close")
        read[key] = Adjective(
            english=_words(key.partition(".")[0]),
            french=(forms[0], forms[1], forms[2], forms[3]),
            french_before_vowel=forms[4] if len(forms) > 4 else forms[0],
            before_noun=place == "before",
            chinese=_words(word),
            attachment=attachment,  # type: ignore[arg-type]
            predicate=predicate,
            singular_only=number == "singular",
        )
    return read


def _read_nouns() -> dict[str, Noun]:
    read: dict[str, Noun] = {}
    for key, english, french, chinese, traits, adjectives, predicates in table("nouns"):
        singular, plural = english.split()
        french_singular, french_plural, gender = french.split()
        word, classifier = chinese.split()
        read[key] = Noun(
            singular=_words(singular),
            plural=_words(plural),
            french_singular=_words(french_singular),
            french_plural=_words(french_plural),
            feminine=gender == "f",
            mass=plural == "=",
            chinese=(word,),
            classifier=classifier,
            traits=tuple(traits.split()),
            adjectives=tuple(tuple(group.split("+")) for group in adjectives.split()),
            predicates=tuple(predicates.split()),
        )
    return read


def _nouns_with(trait: str) -> tuple[str, ...]:
    return tuple(key for key, noun in NOUNS.items() if trait in noun.traits)


ADJECTIVES = _read_adjectives()
NOUNS = _read_nouns()

TOPICS = _nouns_with("topic")
KIN, PEOPLE, ROLES = (frozenset(_nouns_with(trait)) for trait in ("kin", "person", "role"))
UNIQUE = frozenset((*_nouns_with("unique"), *TOPICS))

# Chinese has special words for these two; the plain compounds would sound wrong.
CHINESE_COMPOUNDS = {("old.being", "man"): "人", ("old.being", "woman"): "妇人"}

NAMES = {
    "Marie": ("玛丽", True),
    "Anna": ("安娜", True),
    "Julie": ("朱莉", True),
    "Paul": ("保罗", False),
    "Thomas": ("托马斯", False),
    "Pierre": ("皮埃尔", False),
}
# Adjectives that are never plural, which keeps the French vocabulary small.
SINGULAR_ONLY = frozenset(key for key, adjective in ADJECTIVES.items() if adjective.singular_only)
FEMININE_NAMES = tuple(name for name, (_, feminine) in NAMES.items() if feminine)

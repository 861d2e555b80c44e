"""Verb frames: who does what to what, where, when and why, and how Chinese says it.

An English verb may have many frames if its object decides the translation ("play football",
"play the piano").
"""

from typing import NamedTuple

from regard.data.grammar.phrases import Mode
from regard.data.grammar.pieces import table
from regard.data.grammar.verbs import VERBS

# Letters for tenses: habit, now (progressive), past, future, can, must, want to, like to.
_TENSES = {
    "h": "present",
    "n": "progressive",
    "p": "past",
    "f": "future",
    "c": "can",
    "m": "must",
    "w": "want",
    "l": "like",
}


class Frame(NamedTuple):
    """What can be said with a verb; the reasons say why somebody does it, or does not."""

    name: str
    verb: str
    chinese: str
    tenses: frozenset[str]
    negatives: frozenset[str]
    objects: str = ""
    policy: str = "event"
    habit: str = "habit"
    mode: Mode = "plain"
    particle: str = ""
    tail: str = ""
    places: str = ""
    destination: str = ""
    adjunct: str = ""
    pronouns: bool = False
    adverbs: bool = True
    times: bool = True
    subject: str = "person"
    style: str = ""
    reasons: str = ""
    negative_reasons: str = ""
    sudden: bool = False
    span: str = "day"
    weight: int = 4


def _tenses(letters: str) -> frozenset[str]:
    return frozenset(_TENSES[letter] for letter in letters.strip("-"))


def _read_frame(name: str, verb: str, chinese: str, letters: str, weight: str, rest: str) -> Frame:
    tenses = _tenses(letters)
    # "must not" is a prohibition, which Chinese and French word differently.
    negatives = tenses - {"must"}
    values: dict[str, str] = {}
    flags: set[str] = set()
    for item in rest.split():
        key, _, value = item.partition("=")
        if not value:
            flags.add(key)
        elif key == "negatives":
            negatives = _tenses(value)
        else:
            values[key] = value.replace("_", " ").replace("+", " ")
    return Frame(
        name,
        verb,
        chinese,
        tenses,
        negatives,
        **values,  # type: ignore[arg-type]
        pronouns="pronouns" in flags,
        adverbs="no_adverbs" not in flags,
        times="no_times" not in flags,
        sudden="sudden" in flags,
        weight=int(weight),
    )


FRAMES = tuple(_read_frame(*row) for row in table("frames"))
FRAME_NAMED = {frame.name: frame for frame in FRAMES}
FRAME_GROUPS = {
    # Purposes of going somewhere, taking the train, or studying a language.
    "go": frozenset({"visit person"}),
    "take": frozenset({"visit", "visit city", "visit person"}),
    "study language": frozenset({"visit city"}),
    # What happens at the moment of somebody's arrival.
    "sudden": frozenset(frame.name for frame in FRAMES if frame.sudden),
    "relative": frozenset(
        frame.name
        for frame in FRAMES
        if frame.subject in ("person", "adult", "owner") and VERBS[frame.verb].known
    ),
}

# Relative clauses about things: who bought it, who is reading it, where it is.
# Verb, Chinese verb, tense, English particle, style of the Chinese verb.
Relation = tuple[str, str, str, str, str]

_FOUND_IN = {
    "furniture": "apple orange cake fish book newspaper letter novel hat glasses watch key umbrella bag "
    "phone computer flower photo bread cheese",
    "animal": "dog cat",
    "building": "house restaurant hotel car bike bus taxi museum library",
}


def _relations() -> dict[str, tuple[Relation, ...]]:
    found: dict[str, tuple[Relation, ...]] = {}
    for verb, chinese, tense, particle, style, nouns in table("relatives"):
        for noun in nouns.split():
            found[noun] = (*found.get(noun, ()), (verb, chinese, tense, particle, style))
    return found


THING_RELATIVES = _relations()
PLACES_OF_THINGS = {noun: group for group, nouns in _FOUND_IN.items() for noun in nouns.split()}

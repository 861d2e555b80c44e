"""Phrases of place, time, company and instrument."""

from functools import cache
from itertools import chain

from regard.data.grammar.lexicon import ADJECTIVES, NOUNS
from regard.data.grammar.phrases import Choice, Mode, phrase
from regard.data.grammar.pieces import Piece, by_length, linked, moved, piece, table

# English preposition -> French words, mode of the French noun phrase, Chinese word after the noun.
_PREPOSITIONS: dict[str, tuple[str, Mode, str]] = {
    "in": ("dans", "plain", "里"),
    "at": ("", "à", ""),
    "on": ("sur", "plain", "上"),
    "under": ("sous", "plain", "下面"),
    "near": ("près", "de", "附近"),
    "behind": ("derrière", "plain", "后面"),
    "in front of": ("devant", "plain", "前面"),
    "to": ("", "à", ""),
}
# Chinese nouns with a locative word of their own.
_AFTER_NOUN = {("in", "street"): "上", ("near", "river"): "边"}


def _with_noun(preposition: str, adjectives: tuple[str, ...], noun: str) -> Piece:
    french, mode, after = _PREPOSITIONS[preposition]
    after = _AFTER_NOUN.get((preposition, noun), after)
    words = tuple(preposition.split())
    own = tuple(range(len(words)))
    realised = phrase(("the", adjectives, noun, False), mode)
    return Piece(
        words + realised.english,
        (*((word, own) for word in french.split()), *moved(realised.french, len(words))),
        (*moved(realised.chinese, len(words)), *([(after, own)] if after else [])),
    )


_FIXED = {key: piece(*texts) for key, *texts in table("fixed_places")}

CITIES = ("in Paris", "in London", "in Beijing")
_SHORTHANDS = {
    "CITIES": CITIES,
    "COUNTRIES": ("in France", "in China", "in Japan"),
    "NEAR": tuple(
        f"near {noun}" for noun in ("school", "station", "museum", "hospital", "hotel", "bridge", "river")
    ),
    "OUTSIDE": tuple(
        f"{preposition} {noun}"
        for preposition in ("in front of", "behind")
        for noun in ("school", "station", "museum", "restaurant", "hotel", "hospital")
    ),
    "FURNITURE": ("on table", "under table", "on chair", "under chair"),
}


# Places that fit together; a frame names the group of places where it can happen.
PLACE_GROUPS: dict[str, tuple[str, ...]] = {"": ()} | {
    name: tuple(chain.from_iterable(_SHORTHANDS.get(key, (key,)) for key in places.split(", ")))
    for name, places in table("places")
}


@cache
def place(key: str, adjective: str = "") -> Piece:
    """The place with an English key such as "at station", with or without an adjective."""
    preposition, _, noun = key.rpartition(" ")
    made = _FIXED.get(key) or _with_noun(preposition, (adjective,) if adjective else (), noun)
    return made if key.startswith("to ") else made._replace(chinese=(("在", (0,)), *made.chinese))


@cache
def without_zai(made: Piece) -> Piece:
    """A place without its Chinese 在, as used at the beginning of a clause or after 去."""
    return made._replace(chinese=made.chinese[made.chinese[0][0] == "在" :])


@cache
def places_by_length(group: str) -> dict[int, tuple[Piece, ...]]:
    """All places of a group, by number of English words."""
    found: list[Piece] = []
    for key in PLACE_GROUPS[group]:
        found.append(place(key))
        if key in _FIXED:
            continue
        found += [
            place(key, *adjectives)
            for adjectives in NOUNS[key.rpartition(" ")[2]].adjectives
            if len(adjectives) == 1 and ADJECTIVES[adjectives[0]].attachment != "close"
        ]
    return by_length((len(made.english), made) for made in found)


def _times(tense: str) -> tuple[Piece, ...]:
    return tuple(piece(*texts) for of, *texts in table("times") if of == tense)


TIMES = {tense: _times(tense) for tense in ("past", "future", "present", "progressive")}
TIMES["must"] = TIMES["want"] = TIMES["future"]
TIMES["can"] = TIMES["like"] = ()
DURATIONS = _times("duration")


@cache
def time_first(time: Piece) -> Piece:
    """A time phrase at the beginning of a clause; Chinese needs no comma after it."""
    comma = (",", (len(time.english),))
    return Piece((*time.english, ","), (*time.french, comma), time.chinese)


@cache
def beside(kind: str, choice: Choice) -> Piece:
    """Company (和 ... 一起), an instrument (用 ...), or the recipient of something ("to Marie").

    A recipient may be "sent to" (Chinese puts 给 before it) or "given to" (the verb is 给 itself).
    """
    if kind in ("sent", "given"):
        realised = phrase(choice, "à")
        chinese = moved(realised.determiner + realised.chinese, 1)
        before = linked("给/0") if kind == "sent" else ()
        return Piece(("to", *realised.english), moved(realised.french, 1), before + chinese)
    realised = phrase(choice)
    french = linked("avec/0") + moved(realised.french, 1)
    if kind == "instrument":
        chinese = linked("用/0") + moved(realised.full_determiner + realised.chinese, 1)
    else:
        chinese = linked("和/0") + moved(realised.determiner + realised.chinese, 1) + linked("一起/0")
    return Piece(("with", *realised.english), french, chinese)

"""Phrases of place, time, company and instrument."""

from functools import cache
from typing import NamedTuple

from regard.data.grammar.lexicon import ADJECTIVES, NOUNS
from regard.data.grammar.phrases import Choice, Mode, phrase
from regard.data.grammar.pieces import Links, Piece, Words, moved, piece, table


class Place(NamedTuple):
    """A phrase of place; ``merged`` leaves out the Chinese 在 after a 正在 that already holds it."""

    english: Words
    french: Words
    french_links: Links
    chinese: Words
    chinese_links: Links
    merged: Words
    merged_links: Links


# English preposition -> French words, how the French noun phrase is taken, Chinese word after the noun.
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
# Chinese nouns with their own word of place.
_AFTER_NOUN = {("in", "street"): "上", ("near", "river"): "边"}


def _place(source: Piece, destination: bool) -> Place:
    chinese, links = source.chinese, source.chinese_links
    if destination:
        return Place(source.english, source.french, source.french_links, chinese, links, chinese, links)
    full, full_links = ("在", *chinese), ((0, 0), *moved(links, 0, 1))
    english, french, french_links, _, _ = source
    return Place(english, french, french_links, full, full_links, chinese, ((0, -1), *links))


def _with_noun(preposition: str, adjectives: tuple[str, ...], noun: str) -> Place:
    french, mode, after = _PREPOSITIONS[preposition]
    words = tuple(preposition.split())
    count = len(words)
    realised = phrase(("the", adjectives, noun, False), mode)
    front = tuple(french.split())
    front_links = tuple((source, target) for target in range(len(front)) for source in range(count))
    chinese = realised.chinese
    links = moved(realised.chinese_links, count, 0)
    after = _AFTER_NOUN.get((preposition, noun), after)
    if after:
        links += tuple((source, len(chinese)) for source in range(count))
        chinese = (*chinese, after)
    links = tuple(sorted(links))
    made = Piece(
        words + realised.english,
        front + realised.french,
        tuple(sorted(front_links + moved(realised.french_links, count, len(front)))),
        chinese,
        links,
    )
    return _place(made, preposition == "to")


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


def _read_groups() -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {"": ()}
    for name, places in table("places"):
        found: list[str] = []
        for place_name in places.split(", "):
            found += _SHORTHANDS.get(place_name, (place_name,))
        groups[name] = tuple(found)
    return groups


# Places that make sense together; a frame names the group it can happen in.
PLACE_GROUPS = _read_groups()


@cache
def place(key: str, adjective: str = "") -> Place:
    """The place named by an English key such as "at station", with or without an adjective."""
    if key in _FIXED:
        return _place(_FIXED[key], key.startswith("to "))
    preposition, _, noun = key.rpartition(" ")
    return _with_noun(preposition, (adjective,) if adjective else (), noun)


@cache
def place_piece(made: Place, variant: str) -> Piece:
    """A place with its Chinese 在 ("full"), with a 正在 before it ("merged"), or with neither ("bare")."""
    if variant == "full":
        chinese, links = made.chinese, made.chinese_links
    elif variant == "merged":
        chinese, links = made.merged, made.merged_links
    else:
        chinese, links = made.merged, tuple(link for link in made.merged_links if link[1] >= 0)
    return Piece(made.english, made.french, made.french_links, chinese, links)


@cache
def places_by_length(group: str) -> dict[int, tuple[Place, ...]]:
    """All places of a group, by the number of English words."""
    found: dict[int, list[Place]] = {}
    for key in PLACE_GROUPS[group]:
        made = place(key)
        found.setdefault(len(made.english), []).append(made)
        if key in _FIXED:
            continue
        for adjectives in NOUNS[key.rpartition(" ")[2]].adjectives:
            if len(adjectives) == 1 and ADJECTIVES[adjectives[0]].attachment != "close":
                made = place(key, adjectives[0])
                found.setdefault(len(made.english), []).append(made)
    return {length: tuple(items) for length, items in found.items()}


def _times(tense: str) -> tuple[Piece, ...]:
    return tuple(piece(*texts) for of, *texts in table("times") if of == tense)


TIMES = {tense: _times(tense) for tense in ("past", "future", "present", "progressive")}
TIMES["must"] = TIMES["want"] = TIMES["future"]
TIMES["can"] = TIMES["like"] = ()
DURATIONS = _times("duration")


@cache
def time_first(time: Piece) -> Piece:
    """A phrase of time at the beginning of a clause; Chinese needs no comma after it."""
    count = len(time.english)
    return Piece(
        (*time.english, ","),
        (*time.french, ","),
        (*time.french_links, (count, len(time.french))),
        time.chinese,
        time.chinese_links,
    )


@cache
def beside(kind: str, choice: Choice) -> Piece:
    """Company (和 ... 一起), an instrument (用 ...), or the one who receives something ("to Marie").

    A receiver may be "sent to" (Chinese has 给 before) or "given to" (the verb is 给 itself).
    """
    if kind in ("sent", "given"):
        realised = phrase(choice, "à")
        chinese = realised.determiner + realised.chinese
        links = realised.determiner_links + moved(realised.chinese_links, 0, len(realised.determiner))
        if kind == "sent":
            chinese, links = ("给", *chinese), ((0, 0), *moved(links, 1, 1))
        else:
            links = moved(links, 1, 0)
        return Piece(
            ("to", *realised.english), realised.french, moved(realised.french_links, 1, 0), chinese, links
        )
    realised = phrase(choice)
    determiner, determiner_links = realised.determiner, realised.determiner_links
    if kind == "instrument":
        determiner, determiner_links = realised.full_determiner, realised.full_determiner_links
    core = moved(determiner_links, 1, 1) + moved(realised.chinese_links, 1, 1 + len(determiner))
    chinese = ("和" if kind == "company" else "用", *determiner, *realised.chinese)
    links = ((0, 0), *core)
    if kind == "company":
        links = (*links, (0, len(chinese)))
        chinese = (*chinese, "一起")
    return Piece(
        ("with", *realised.english),
        ("avec", *realised.french),
        ((0, 0), *moved(realised.french_links, 1, 1)),
        chinese,
        links,
    )

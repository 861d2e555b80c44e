"""Phrases of place, time, company and instrument."""

from functools import cache
from typing import NamedTuple

from regard.data.grammar.lexicon import ADJECTIVES, NOUNS
from regard.data.grammar.phrases import Choice, Mode, phrase
from regard.data.grammar.pieces import Links, Piece, Words, moved, piece, rows


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


_FIXED = {
    "at home": piece("at home", "à/0 la/1 maison/1", "家/1 里/0"),
    "in Paris": piece("in Paris", "à/0 Paris/1", "巴黎/1"),
    "in London": piece("in London", "à/0 Londres/1", "伦敦/1"),
    "in Beijing": piece("in Beijing", "à/0 Pékin/1", "北京/1"),
    "in France": piece("in France", "en/0 France/1", "法国/1"),
    "in China": piece("in China", "en/0 Chine/1", "中国/1"),
    "in Japan": piece("in Japan", "au/0 Japon/1", "日本/1"),
    "to Paris": piece("to Paris", "à/0 Paris/1", "巴黎/1"),
    "to London": piece("to London", "à/0 Londres/1", "伦敦/1"),
    "to Beijing": piece("to Beijing", "à/0 Pékin/1", "北京/1"),
    "to France": piece("to France", "en/0 France/1", "法国/1"),
    "to China": piece("to China", "en/0 Chine/1", "中国/1"),
    "to Japan": piece("to Japan", "au/0 Japon/1", "日本/1"),
    "on the bank": piece("on the bank of the river", "sur/0 la/1 rive/2 du/3,4 fleuve/5", "河/5 岸/2 上/0"),
}

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
# Groups of places that make sense together; a frame names the group it can happen in.
_GROUPS = """
meal      | in kitchen, in garden, at restaurant, in park, at home, at hotel, at school, at office
reading   | at library, in garden, in park, at home, at school, at station, in kitchen, on the bank
desk      | at library, at home, at office, at hotel, at school
shopping  | at market, CITIES, near station, near hotel, near museum
seeing    | in park, in street, at station, at market, CITIES, OUTSIDE, NEAR, on the bank
home      | at home, at hotel, at school
searching | in kitchen, in garden, at office, in park, at station, at home, at school
sport     | in park, at school, behind school, near river
music     | at home, at restaurant, at hotel, at school
waiting   | at station, at hotel, at bank, in park, OUTSIDE, NEAR
work      | at hospital, at school, at office, at library, at restaurant, at museum, at market, at hotel,
    at bank, CITIES, COUNTRIES
bed       | at home, at hotel, in garden, at hospital
running   | in park, in street, near river, on the bank, near bridge
water     | in river, in sea, near bridge
joy       | in park, in kitchen, in street, in garden, at school, at restaurant, on the bank
cooking   | in kitchen, at home, at restaurant
washing   | in kitchen, at home
outdoors  | in garden, in street, behind hotel, near river
living    | CITIES, COUNTRIES, NEAR
talking   | at restaurant, at school, at office, in kitchen, at market, CITIES
study     | at library, at school, at home, CITIES
animal    | in garden, in kitchen, in park, in street, under table, on chair, behind hotel, near river
sky       | in garden, in park, near bridge, near river
bridge    | under bridge, near bridge
furniture | FURNITURE, in kitchen
person    | in kitchen, in garden, at station, at market, at home, at hospital, at library, at office,
    in park, at restaurant, at bank, CITIES, OUTSIDE, NEAR
building  | NEAR, OUTSIDE
stay      | at home, at hotel, at hospital, CITIES
to        | to market, to school, to station, to library, to restaurant, to hospital, to museum, to park,
    to bank, to office, to Paris, to London, to Beijing, to France, to China, to Japan
arrive    | at station, at hotel, at hospital, at museum, at school, at office, CITIES, COUNTRIES
back      | to school, to station, to hotel, to Paris, to London, to Beijing, to France, to China,
    to Japan
"""


def _read_groups() -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {"": ()}
    for row in rows(_GROUPS):
        name, places = row.split("|")
        found: list[str] = []
        for place_name in places.split(","):
            found += _SHORTHANDS.get(place_name.strip(), (place_name.strip(),))
        groups[name.strip()] = tuple(found)
    return groups


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


TIMES: dict[str, tuple[Piece, ...]] = {
    "past": (
        piece("yesterday", "hier/0", "昨天/0"),
        piece("this morning", "ce/0 matin/1", "今天/0 早上/1"),
        piece("last week", "la/1 semaine/1 dernière/0", "上个/0 星期/1"),
        piece("last year", "l'/1 année/1 dernière/0", "去年/0,1"),
    ),
    "future": (
        piece("tomorrow", "demain/0", "明天/0"),
        piece("this evening", "ce/0 soir/1", "今天/0 晚上/1"),
        piece("next week", "la/1 semaine/1 prochaine/0", "下个/0 星期/1"),
        piece("next year", "l'/1 année/1 prochaine/0", "明年/0,1"),
    ),
    "present": (
        piece("every day", "tous/0 les/0 jours/1", "每天/0,1"),
        piece("every morning", "tous/0 les/0 matins/1", "每天/0 早上/1"),
        piece("every evening", "tous/0 les/0 soirs/1", "每天/0 晚上/1"),
        piece("every week", "toutes/0 les/0 semaines/1", "每个/0 星期/1"),
        piece("on Sundays", "le/0 dimanche/1", "星期天/0,1"),
    ),
    "progressive": (
        piece("now", "maintenant/0", "现在/0"),
        piece("at the moment", "en/0 ce/1 moment/2", "现在/0,1,2"),
    ),
}
TIMES["must"] = TIMES["want"] = TIMES["future"]
TIMES["can"] = TIMES["like"] = ()

DURATIONS = (
    piece("for an hour", "pendant/0 une/1 heure/2", "一/1 个/1 小时/2"),
    piece("for two hours", "pendant/0 deux/1 heures/2", "两/1 个/1 小时/2"),
    piece("for three hours", "pendant/0 trois/1 heures/2", "三/1 个/1 小时/2"),
    piece("for a long time", "pendant/0 longtemps/1,2,3", "很/2 长/2 时间/3"),
)


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

"""What can be said of a thing in a relative clause: who bought it, who is reading it, where it is."""

# Verb, Chinese verb, tense, English particle, style of the Chinese verb.
Relation = tuple[str, str, str, str, str]

_SAID_OF: tuple[tuple[Relation, str], ...] = (
    (
        ("buy", "买", "past", "", ""),
        "apple orange egg cake fish bread cheese meat coffee tea milk book newspaper novel car bike coat "
        "shirt dress hat shoes glasses watch umbrella bag phone computer flower scarf house horse",
    ),
    (("read", "看", "progressive", "", ""), "book newspaper letter novel"),
    (("read", "读", "progressive", "", ""), "poem"),
    (("write", "写", "past", "", ""), "letter novel poem book"),
    (("make", "做", "past", "", ""), "cake bread soup"),
    (("wear", "穿", "progressive", "", "着"), "coat shirt dress shoes"),
    (("wear", "戴", "progressive", "", "着"), "hat scarf glasses watch"),
    (("wash", "洗", "past", "", ""), "car shirt dress bike coat"),
    (
        ("like", "喜欢", "present", "", ""),
        "dress coat book film car house novel poem photo hat bike dog cat horse",
    ),
    (("look", "找", "progressive", "for", ""), "key bag phone umbrella dog cat"),
    (("send", "寄", "past", "", ""), "letter photo"),
    (("see", "看见", "past", "", ""), "bird plane dog cat horse house"),
    (("drive", "开", "present", "", ""), "car"),
)
_FOUND_IN = {
    "furniture": "apple orange cake fish book newspaper letter novel hat glasses watch key umbrella bag "
    "phone computer flower photo bread cheese",
    "animal": "dog cat",
    "building": "house restaurant hotel car bike bus taxi museum library",
}


def _relations() -> dict[str, tuple[Relation, ...]]:
    table: dict[str, tuple[Relation, ...]] = {}
    for relation, nouns in _SAID_OF:
        for noun in nouns.split():
            table[noun] = (*table.get(noun, ()), relation)
    return table


THING_RELATIVES = _relations()
_PLACES = {noun: group for group, nouns in _FOUND_IN.items() for noun in nouns.split()}


def place_of_thing(noun: str) -> str:
    """The group of places where a thing may be, or nothing."""
    return _PLACES.get(noun, "")

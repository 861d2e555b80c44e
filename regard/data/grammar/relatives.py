"""What can be said of a thing in a relative clause: who bought it, who is reading it, where it is."""

from regard.data.grammar.pieces import table

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
_PLACES = {noun: group for group, nouns in _FOUND_IN.items() for noun in nouns.split()}


def place_of_thing(noun: str) -> str:
    """The group of places where a thing may be, or nothing."""
    return _PLACES.get(noun, "")

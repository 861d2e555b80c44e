"""Which noun phrases fit which slot, by number of English words."""

from functools import cache
from itertools import combinations

from regard.data.grammar.lexicon import ADJECTIVES, KIN, NAMES, NOUNS, SINGULAR_ONLY
from regard.data.grammar.phrases import PRONOUNS, Choice, phrase
from regard.data.grammar.pieces import by_length, table

# Nouns for each object slot. Names in capitals are phrases fixed as a whole.
OBJECTS = {slot: tuple(words.split()) for slot, _, words in table("objects")}
# Slots whose nouns may be followed by "that ..." or "which ...".
RELATIVE_SLOTS = frozenset(slot for slot, relative, _ in table("objects") if relative)

_PERSON_NOUNS = ("man", "woman", "girl", "boy", "child", "teacher", "doctor", "student")
_OWN = ("neighbour", "friend")
OWNER = "OWNER"  # placeholder for the subject's possessive ("her")
NAME = "NAME"  # placeholder for a name ("Marie 's")

_PLURAL_THE = ("the", "these", "those", OWNER)
# Determiners of a slot by policy: singular, plural, mass.
POLICIES = {name: [tuple(words.split()) for words in columns] for name, *columns in table("determiners")}
_MEASURES = {
    "coffee": ("a cup of", "two cups of"),
    "tea": ("a cup of", "two cups of"),
    "water": ("a glass of", "two glasses of"),
    "milk": ("a glass of", "two glasses of"),
    "bread": ("a piece of",),
    "cheese": ("a piece of",),
    "meat": ("a piece of",),
    "soup": ("a bowl of", "two bowls of"),
    "rice": ("a bowl of",),
}

ByLength = dict[int, tuple[Choice, ...]]


def english_length(choice: Choice) -> int:
    """The number of English words in a noun phrase."""
    determiner, adjectives, noun, plural = choice
    if determiner in ("", "fixed"):
        return len(phrase(choice).english)
    entry = NOUNS[noun]
    head = 0 if determiner == "bare" else 2 if determiner == NAME else len(determiner.split())
    return (
        head
        + sum(len(ADJECTIVES[name].english) for name in adjectives)
        + len(entry.plural if plural else entry.singular)
    )


def _sorted_by_length(choices: list[Choice]) -> ByLength:
    return dict(sorted(by_length((english_length(choice), choice) for choice in choices).items()))


def _with_determiners(noun: str, policy: str) -> list[Choice]:
    singular, plural, mass = POLICIES[policy]
    entry = NOUNS[noun]
    pair = not entry.singular
    result: list[Choice] = []
    for adjectives in ((), *entry.adjectives):
        if policy == "animal" and adjectives:
            continue
        if policy.startswith("fresh") and adjectives and adjectives[0].startswith("old"):
            continue
        if entry.mass:
            result += [
                (determiner, adjectives, noun, False) for determiner in mass if determiner != "MEASURE"
            ]
            if "MEASURE" in mass:
                result += [(measure, adjectives, noun, False) for measure in _MEASURES.get(noun, ())]
        elif pair:
            known = ("the",) if policy == "head" else _PLURAL_THE
            wanted = [d for d in plural or known if d in ("the", "these", OWNER, "bare")]
            if singular and "a" in singular and adjectives:
                wanted.append("bare")
            result += [(determiner, adjectives, noun, True) for determiner in wanted]
        else:
            result += [(determiner, adjectives, noun, False) for determiner in singular]
            if entry.plural and SINGULAR_ONLY.isdisjoint(adjectives):
                result += [(determiner, adjectives, noun, True) for determiner in plural]
            elif policy == "habit" and noun == "fish":
                result.append(("bare", adjectives[:0], noun, False))
    return result


def _people(owner: str, indefinite: bool) -> list[Choice]:
    """People other than pronouns; ``owner`` is the possessive, or its placeholder."""
    result: list[Choice] = []
    owners = ("my", "my", "your", "our", "his", "her") if owner == "" else (owner, owner)
    for noun in _PERSON_NOUNS:
        for adjectives in ((), *NOUNS[noun].adjectives):
            result += [("the", adjectives, noun, False)] * 4
            result += [("the", adjectives, noun, True), ("these", adjectives, noun, True)] * (
                1 + NOUNS[noun].feminine
            )
            result += [("this", adjectives, noun, False), ("that", adjectives, noun, False)]
            if indefinite:
                result += [("a", adjectives, noun, False)] * 2
                result += [("two", adjectives, noun, True), ("three", adjectives, noun, True)] * (
                    1 + NOUNS[noun].feminine
                )
                if noun in ("man", "woman", "child", "student") and not adjectives:
                    result.append(("many", (), noun, True))
    for noun in sorted(KIN):
        result += [(word, (), noun, False) for word in owners]
        result += [(NAME, (), noun, False)] * 2
    for noun in _OWN:
        for adjectives in ((), *NOUNS[noun].adjectives):
            result += [(word, adjectives, noun, False) for word in owners[1:]]
            result += [(owners[0], adjectives, noun, True), (NAME, adjectives, noun, False)]
    return result


# Couples of two women are few, but their French agreement is worth learning.
_COUPLES: list[Choice] = [
    ("", (), f"{one} and {other}", False)
    for one, other in combinations(NAMES, 2)
    for _ in range(4 if NAMES[one][1] and NAMES[other][1] else 1)
]


@cache
def objects(slot: str, policy: str) -> ByLength:
    """The phrases for an object slot under a policy, by length."""
    if slot == "person":
        names: list[Choice] = [("", (), name, False) for name in NAMES]
        return _sorted_by_length(names + _people(OWNER, indefinite=policy == "event") + _COUPLES)
    choices: list[Choice] = []
    for noun in OBJECTS[slot]:
        if noun in NOUNS:
            choices += _with_determiners(noun, policy)
        else:
            choices.append(("fixed", (), noun.replace("_", " "), False))
    if slot == "topic":
        # These nouns need adjectives to mean anything, and "a" introduces only new things.
        choices = [c for c in choices if len(c[1]) >= 2 and (c[0] != "a" or c[1][0] == "new")]
    return _sorted_by_length(choices)


@cache
def subjects(kind: str) -> ByLength:
    """The subjects of a kind, by length."""
    choices: list[Choice] = []
    if kind in ("person", "anyone", "named"):
        choices += [("", (), name, False) for name in PRONOUNS] * 2
        choices += [("", (), name, False) for name in NAMES]
        if kind != "named":
            choices += _people("", indefinite=kind == "anyone") + _COUPLES * 3
        else:
            choices += [("my", (), noun, False) for noun in sorted(KIN)]
            choices += [("the", (), noun, False) for noun in _PERSON_NOUNS]
        return _sorted_by_length(choices)
    if kind in ("young", "adult", "owner"):
        young = kind == "young"
        pronouns = ("he", "she", "they") if kind == "owner" else tuple(PRONOUNS)
        choices += [("", (), name, False) for name in (*pronouns, *NAMES)]
        for noun in (
            ("boy", "girl", "child", "student") if young else ("man", "woman", "doctor", "teacher", "student")
        ):
            for adjectives in ((), *NOUNS[noun].adjectives):
                choices += [(word, adjectives, noun, False) for word in ("the", "the", "this", "that")]
                choices += [(word, adjectives, noun, True) for word in ("the", "two", "these")]
        for noun in ("brother", "son") if young else ("mother", "father", "sister"):
            choices += [(word, (), noun, False) for word in ("my", "your", "his", "her", NAME)]
        return _sorted_by_length(choices)
    if kind == "political":
        for noun in ("president", "government"):
            choices += [("the", adjectives, noun, False) for adjectives in NOUNS[noun].adjectives]
        return _sorted_by_length(choices)
    groups = {
        "animal": ("dog", "cat"),
        "horse": ("horse",),
        "bird": ("bird",),
        "flying": ("bird", "bat.animal"),
        "bat": ("bat.animal",),
        "plane": ("plane",),
    }
    kind, _, known = kind.partition(" ")
    owners = () if kind in ("flying", "bat", "plane") else ("my", NAME)
    new = () if known else ("a",)
    new_plural = () if known else ("two", "many")
    for noun in groups[kind]:
        for adjectives in ((), *NOUNS[noun].adjectives):
            choices += [(word, adjectives, noun, False) for word in ("the", "the", "this", *new, *owners)]
            choices += [(word, adjectives, noun, True) for word in ("the", "these", *new_plural)]
    return _sorted_by_length(choices)

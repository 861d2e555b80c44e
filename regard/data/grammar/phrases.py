"""Noun phrases in three languages: determiners, agreement, adjective order, classifiers."""

from functools import cache
from typing import Literal, NamedTuple

from regard.data.grammar.lexicon import (
    ADJECTIVES,
    CHINESE_COMPOUNDS,
    KIN,
    NAMES,
    NOUNS,
    PEOPLE,
    ROLES,
    UNIQUE,
    Adjective,
)
from regard.data.grammar.pieces import Linked, LinkedWord, Words, piece, table
from regard.data.grammar.spelling import begins_with_vowel, elide, indefinite_article

# The seven agreements of a verb with its subject.
I, YOU, WE, HE, SHE, THEY, THEY_FEMININE = range(7)
UNKNOWN_GENDER = frozenset({I, YOU})

# How the French sentence uses the phrase: plain, under negation, after "à", after "de", or generically
# ("aimer les pommes").
Mode = Literal["plain", "negative", "à", "de", "generic"]

# Determiner, adjectives, noun, whether plural.
Choice = tuple[str, tuple[str, ...], str, bool]


class Phrase(NamedTuple):
    """A noun phrase; the Chinese determiner is kept apart, because relative clauses follow it.

    There are three Chinese determiners, which differ for "the": none before a relative clause, none for a
    subject known by its role (老师), a demonstrative for everything else (那个男人, 那本书).
    """

    english: Words
    agreement: int
    french: Linked
    chinese: Linked
    bare_determiner: Linked = ()
    determiner: Linked = ()
    full_determiner: Linked = ()


PRONOUNS = {
    "I": (I, "je", "我"),
    "you": (YOU, "vous", "你"),
    "we": (WE, "nous", "我们"),
    "he": (HE, "il", "他"),
    "she": (SHE, "elle", "她"),
    "they": (THEY, "ils", "他们"),
}
OBJECT_PRONOUNS = {
    "me": (I, "me", "我"),
    "you": (YOU, "vous", "你"),
    "us": (WE, "nous", "我们"),
    "him": (HE, "le", "他"),
    "her": (SHE, "la", "她"),
    "them": (THEY, "les", "他们"),
}
SUBJECT_PRONOUN = ("I", "you", "we", "he", "she", "they", "they")

# Possessive determiner by the owner's agreement. For English "their" Chinese distinguishes women from men.
POSSESSIVE = ("my", "your", "our", "his", "her", "their", "their (women)")
_POSSESSIVES = {
    "my": ("mon", "ma", "mes", "我"),
    "your": ("votre", "votre", "vos", "你"),
    "our": ("notre", "notre", "nos", "我们"),
    "his": ("son", "sa", "ses", "他"),
    "her": ("son", "sa", "ses", "她"),
    "their": ("leur", "leur", "leurs", "他们"),
    "their (women)": ("leur", "leur", "leurs", "她们"),
}
_QUANTITIES = {
    "two": ("deux", "两"),
    "three": ("trois", "三"),
}
# "a cup of", "two cups of": French measure word, Chinese measure word.
_MEASURES = {
    "cup": ("tasse", True, "杯"),
    "glass": ("verre", False, "杯"),
    "piece": ("morceau", False, "块"),
    "bowl": ("bol", False, "碗"),
}
_MEASURE_PLURALS = {"cups": ("cup", "tasses"), "glasses": ("glass", "verres"), "bowls": ("bowl", "bols")}


def _measure(determiner: str) -> tuple[Words, list[str], str, str] | None:
    words = tuple(determiner.split())
    if words[-1] != "of":
        return None
    if words[1] in _MEASURE_PLURALS:
        key, plural = _MEASURE_PLURALS[words[1]]
        french, chinese = _QUANTITIES[words[0]]
        return words, [french, plural, "de"], chinese, _MEASURES[key][2]
    noun, feminine, classifier = _MEASURES[words[1]]
    return words, ["une" if feminine else "un", noun, "de"], "一", classifier


def _french_adjective(adjective: Adjective, feminine: bool, plural: bool, following: str) -> str:
    if not feminine and not plural and following and begins_with_vowel(following):
        return adjective.french_before_vowel
    return adjective.french[2 * plural + feminine]


def _definite(feminine: bool, plural: bool, following: str, mode: Mode) -> list[str]:
    article = "les" if plural else "la" if feminine else "le"
    if mode not in ("à", "de"):
        return [article]
    if article == "les":
        return ["aux" if mode == "à" else "des"]
    if article == "le" and not begins_with_vowel(following):
        return ["au" if mode == "à" else "du"]
    return [mode, article]


def _french_determiner(
    determiner: str,
    feminine: bool,
    plural: bool,
    mass: bool,
    following: str,
    adjective_first: bool,
    mode: Mode,
) -> list[str]:
    """The French words for an English determiner, except for measures."""
    if determiner == "the" or determiner in NAMES or (mode == "generic" and determiner == "bare"):
        return _definite(feminine, plural, following, mode)
    before = [mode] if mode in ("à", "de") else []
    if determiner in _POSSESSIVES:
        masculine, feminine_form, plural_form, _ = _POSSESSIVES[determiner]
        if plural:
            return [*before, plural_form]
        return [*before, feminine_form if feminine and not begins_with_vowel(following) else masculine]
    if determiner in ("this", "that"):
        return [*before, "cette" if feminine else "cet" if begins_with_vowel(following) else "ce"]
    if determiner in ("these", "those"):
        return [*before, "ces"]
    if determiner in _QUANTITIES:
        return [*before, _QUANTITIES[determiner][0]]
    if determiner == "many":
        return [*before, "beaucoup", "de"]
    if mode == "negative":
        return ["de"]
    if determiner == "a":
        return [*before, "une" if feminine else "un"]
    if mode == "de":
        # "de" merges with a partitive or plural indefinite article.
        return ["de"]
    if mass or not plural:
        return [*before, *_definite(feminine, False, following, "de")]
    return [*before, "de" if adjective_first else "des"]


def _elided(words: list[LinkedWord]) -> Linked:
    forms = elide([word for word, _ in words])
    return tuple((form, sources) for form, (_, sources) in zip(forms, words, strict=True))


def _french(choice: Choice, offset: int, positions: list[int], noun_at: int, mode: Mode) -> Linked:
    """French words and links; ``positions`` are those of the English adjectives."""
    determiner, adjectives, key, plural = choice
    noun = NOUNS[key]
    nouns = noun.french_plural if plural else noun.french_singular
    length = len(noun.plural if plural else noun.singular)
    body: list[LinkedWord] = []
    for index, word in enumerate(nouns):
        aligned = (noun_at + index,) if len(nouns) == length else tuple(range(noun_at, noun_at + length))
        body.append((word, aligned))
    adjective_first = False
    for name, position in reversed(list(zip(adjectives, positions, strict=True))):
        adjective = ADJECTIVES[name]
        if adjective.before_noun:
            form = _french_adjective(adjective, noun.feminine, plural, body[0][0])
            body.insert(0, (form, (position,)))
            adjective_first = True
        else:
            forms = _french_adjective(adjective, noun.feminine, plural, "").split("_")
            last = position + len(adjective.english) - 1
            body.extend((form, (last - index,)) for index, form in enumerate(forms))
    following = body[0][0]
    measure = _measure(determiner)
    head: list[LinkedWord]
    if measure:
        head = [(word, (index,)) for index, word in enumerate(measure[1])]
    else:
        words = _french_determiner(
            determiner, noun.feminine, plural, noun.mass, following, adjective_first, mode
        )
        own = tuple(range(offset)) or (noun_at,)
        if determiner in NAMES:
            # In French the owner's name comes last: "le chien de Marie".
            own = (1,)
            body += [("de", (1,)), (determiner, (0,))]
        head = [(word, own) for word in words]
        if mode in ("à", "de"):
            # The preposition is linked to the English word before the phrase.
            contracted = words[0] in ("au", "aux", "du", "des")
            partitive = mode == "de" and len(words) == 1 and words[0] == "de"
            head[0] = (words[0], (-1, *own) if contracted or (partitive and offset) else (-1,))
    return _elided(head + body)


def _chinese_determiner(choice: Choice, full: bool, mode: Mode) -> Linked:
    determiner, adjectives, key, plural = choice
    noun = NOUNS[key]
    pair = plural and not noun.singular
    classifier = noun.classifier
    measure = _measure(determiner)
    words: Words
    if measure:
        return (measure[2], (0,)), (measure[3], (1, 2))
    # One 的 is enough: 她红色的大衣, 我妈妈.
    particle = not any(ADJECTIVES[name].attachment == "de" for name in adjectives)
    if determiner in NAMES:
        name = (NAMES[determiner][0], (0,))
        return (name, ("的", (1,))) if particle else (name,)
    if determiner in _POSSESSIVES:
        owner = _POSSESSIVES[determiner][3]
        close = key in KIN and len(owner) == 1
        words = (owner, "的") if particle and not close else (owner,)
    elif determiner == "the":
        if not full or noun.mass or key in UNIQUE or (plural and key in PEOPLE):
            words = ()
        else:
            words = ("那些",) if plural and not pair else ("那", classifier)
    elif determiner in ("this", "these", "that", "those"):
        word = "这" if determiner in ("this", "these") else "那"
        words = (word + "些",) if plural and not pair else (word, classifier)
    elif determiner in _QUANTITIES:
        words = (_QUANTITIES[determiner][1], classifier)
    elif determiner == "many":
        words = ("很多",)
    elif mode == "negative" or determiner in ("any", "bare"):
        words = ()
    elif determiner == "some":
        words = ("一些",)
    else:
        words = ("一", classifier)
    return tuple((word, (0,)) for word in words)


def _chinese(choice: Choice, positions: list[int], noun_at: int) -> Linked:
    determiner, adjectives, key, plural = choice
    noun = NOUNS[key]
    with_particle: list[LinkedWord] = []
    bare: list[LinkedWord] = []
    close: list[LinkedWord] = []
    relational = any(ADJECTIVES[name].attachment == "close" for name in adjectives)
    word = noun.chinese[0]
    for name, position in zip(adjectives, positions, strict=True):
        adjective = ADJECTIVES[name]
        aligned = [(form, (position + index,)) for index, form in enumerate(adjective.chinese)]
        word = CHINESE_COMPOUNDS.get((name, key), word)
        if adjective.attachment == "close":
            close += aligned
        elif adjective.attachment == "de" or relational:
            # 漂亮的红色连衣裙: the second 的 is dropped, unless a single syllable follows.
            if with_particle and len(word) > 1:
                with_particle += aligned
            else:
                with_particle += [*aligned, ("的", aligned[-1][1])]
        else:
            bare += aligned
    nouns = [word]
    if plural and key in PEOPLE and (determiner == "the" or determiner in _POSSESSIVES):
        nouns.append("们")
    own = tuple(range(noun_at, noun_at + len(noun.plural if plural else noun.singular)))
    return (*with_particle, *bare, *close, *((form, own) for form in nouns))


def _fixed(english: str, french: str, chinese: str) -> Phrase:
    made = piece(english, french, chinese)
    return Phrase(made.english, HE, made.french, made.chinese)


# Objects with a fixed French preposition or article.
FIXED = {key: _fixed(*texts) for key, *texts in table("fixed_objects")}


@cache
def phrase(choice: Choice, mode: Mode = "plain") -> Phrase:
    """Realize a choice of determiner, adjectives, noun and number in all three languages."""
    determiner, adjectives, key, plural = choice
    if determiner == "fixed":
        return FIXED[key]
    if determiner == "":
        return _name_or_pronoun(key, mode)
    noun = NOUNS[key]
    rest: list[str] = []
    positions: list[int] = []
    for name in adjectives:
        positions.append(len(rest))
        rest += ADJECTIVES[name].english
    noun_at = len(rest)
    rest += noun.plural if plural else noun.singular
    if determiner == "bare":
        head: list[str] = []
    elif determiner == "a":
        head = [indefinite_article(rest[0])]
    elif determiner in NAMES:
        head = [determiner, "'s"]
    else:
        head = determiner.removesuffix(" (women)").split()
    offset = len(head)
    positions = [position + offset for position in positions]
    noun_at += offset
    agreement = (THEY_FEMININE if noun.feminine else THEY) if plural else (SHE if noun.feminine else HE)
    return Phrase(
        (*head, *rest),
        agreement,
        _french(choice, offset, positions, noun_at, mode),
        _chinese(choice, positions, noun_at),
        *(_chinese_determiner(choice, full, mode) for full in (False, key not in ROLES, True)),
    )


def _name_or_pronoun(key: str, mode: Mode) -> Phrase:
    """One name, two names joined by "and", or a subject pronoun."""
    if key in PRONOUNS:
        agreement, french, chinese = PRONOUNS[key]
        return Phrase((key,), agreement, ((french, (0,)),), ((chinese, (0,)),))
    names = key.split(" and ")
    feminine = all(NAMES[name][1] for name in names)
    before: list[LinkedWord] = [(mode, (-1,))] if mode in ("à", "de") else []
    french_words = [*before, (names[0], (0,))]
    chinese_words: list[LinkedWord] = [(NAMES[names[0]][0], (0,))]
    if len(names) == 1:
        agreement = SHE if feminine else HE
    else:
        agreement = THEY_FEMININE if feminine else THEY
        french_words += [("et", (1,)), *before, (names[1], (2,))]
        chinese_words += [("和", (1,)), (NAMES[names[1]][0], (2,))]
    return Phrase(tuple(key.split()), agreement, _elided(french_words), tuple(chinese_words))

"""Spelling rules: French elision, the English article, and raw text from tokens."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from regard.data.spacing import Spacing

# All words in the grammar that begin with h have a mute h.
_VOWELS = frozenset("aeiouhâàéèêîôûœAEIOUHÉ")

ELISIONS = {"je": "j'", "le": "l'", "la": "l'", "me": "m'", "ne": "n'", "de": "d'", "que": "qu'"}
_SI_BEFORE = frozenset({"il", "ils"})

_SPACING = {language: Spacing(language) for language in ("en", "fr", "zh")}


def begins_with_vowel(word: str) -> bool:
    """Whether a French word elides the word before it."""
    return word[0] in _VOWELS or word == "y"


def elide(words: Sequence[str]) -> list[str]:
    """Elide every French word before a vowel; the number of words stays the same."""
    result = list(words)
    for index, (word, following) in enumerate(pairwise(words)):
        if word == "si":
            if following in _SI_BEFORE:
                result[index] = "s'"
        elif word in ELISIONS and begins_with_vowel(following):
            result[index] = ELISIONS[word]
    return result


def indefinite_article(following: str) -> str:
    """The English article "a" or "an" for the following word."""
    if following.startswith("Euro"):
        return "a"
    return "an" if following[0] in "aeiouAEIOU" or following == "hour" else "a"


def join(tokens: Sequence[str], language: Literal["en", "fr", "zh"]) -> str:
    """Join tokens to raw text, with the spacing of the language and an initial capital."""
    if language not in _SPACING:
        raise ValueError(f"grammar: the language is {language!r}; expected 'en', 'fr' or 'zh'.")
    text = _SPACING[language].join(tokens)
    return text[:1].upper() + text[1:]

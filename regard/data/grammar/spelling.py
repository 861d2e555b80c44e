"""Rules of spelling: French elision, the English article, and raw text from tokens."""

from collections.abc import Sequence
from typing import Literal

# Every word of the grammar that begins with h has a mute h.
_VOWELS = frozenset("aeiouhâàéèêîôûœAEIOUHÉ")

ELISIONS = {
    "je": "j'",
    "le": "l'",
    "la": "l'",
    "me": "m'",
    "ne": "n'",
    "de": "d'",
    "que": "qu'",
}
_SI_BEFORE = frozenset({"il", "ils"})
_ELIDABLE = frozenset({*ELISIONS, "si"})

_NO_SPACE_BEFORE = frozenset(".,?!;:") | {"'s"}
_NO_BREAK_SPACE_BEFORE = frozenset("?!;:")


def begins_with_vowel(word: str) -> bool:
    """Whether a French word makes the word before it lose its last vowel."""
    return word[0] in _VOWELS or word == "y"


def elide(words: Sequence[str]) -> list[str]:
    """Put the elided form of every French word that stands before a vowel; the count stays the same."""
    result = list(words)
    last = len(result) - 1
    for index, word in enumerate(words):
        if word in _ELIDABLE and index < last:
            following = words[index + 1]
            if word == "si":
                if following in _SI_BEFORE:
                    result[index] = "s'"
            elif following[0] in _VOWELS or following == "y":
                result[index] = ELISIONS[word]
    return result


def indefinite_article(following: str) -> str:
    """The English article "a" or "an" for the word that follows it."""
    if following.startswith("Euro"):
        return "a"
    return "an" if following[0] in "aeiouAEIOU" or following == "hour" else "a"


def join(tokens: Sequence[str], language: Literal["en", "fr", "zh"]) -> str:
    """Write tokens as raw text, with the spaces of the language and a capital at the beginning."""
    if language not in ("en", "fr", "zh"):
        raise ValueError(f"grammar: the language is {language!r}; expected 'en', 'fr' or 'zh'.")
    if language == "zh":
        return "".join(tokens)
    text = ""
    for token in tokens:
        if not text or (language == "fr" and text.endswith("'")):
            text += token
        elif language == "fr" and token in _NO_BREAK_SPACE_BEFORE:
            text += "\u00a0" + token
        elif token in _NO_SPACE_BEFORE:
            text += token
        else:
            text += " " + token
    return text[:1].upper() + text[1:]

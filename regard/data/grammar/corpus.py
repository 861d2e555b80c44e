"""Endless reproducible streams of sentence pairs, in three disjoint splits."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args
from zlib import crc32

from regard.data.grammar.sentences import choose_sentence
from regard.data.grammar.spelling import join
from regard.data.grammar.translation import translate

Language = Literal["fr", "zh"]
Split = Literal["train", "valid", "test"]

SHORTEST = 3


@dataclass(frozen=True, slots=True)
class Pair:
    """An English sentence, its translation, and the links (source position, target position), sorted."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[tuple[int, int], ...]
    language: Language

    @property
    def source_text(self) -> str:
        """The English sentence as raw text."""
        return join(self.source, "en")

    @property
    def target_text(self) -> str:
        """The translation as raw text."""
        return join(self.target, self.language)


def split_of(source: list[str] | tuple[str, ...]) -> Split:
    """The split of an English sentence, by a stable hash of its words, for all languages."""
    words = source[:-1] if source[-1] in (".", "?") else source
    share = crc32(" ".join(words).lower().encode()) % 10
    return "train" if share < 8 else "valid" if share == 8 else "test"


def generate(
    language: Language, split: Split = "train", *, seed: int = 0, words: tuple[int, int] = (3, 60)
) -> Iterator[Pair]:
    """Endless sentence pairs of one split.

    ``words`` bounds the number of English tokens, inclusively; lengths are distributed evenly between the
    bounds. The same split, seed and bounds give the same English sentences for both languages.
    """
    if language not in get_args(Language):
        raise ValueError(f"grammar: the language is {language!r}; expected 'fr' or 'zh'.")
    if split not in get_args(Split):
        raise ValueError(f"grammar: the split is {split!r}; expected 'train', 'valid' or 'test'.")
    low, high = words
    if not SHORTEST <= low <= high:
        raise ValueError(f"grammar: `words` is {words}; expected (low, high) with {SHORTEST} <= low <= high.")
    return _pairs(language, split, seed, low, high)


def _pairs(language: Language, split: Split, seed: int, low: int, high: int) -> Iterator[Pair]:
    random = Random(f"regard grammar {split} {seed}").random
    while True:
        sentence = choose_sentence(random, low, high)
        if split_of(sentence.source) != split:
            continue
        target, links = translate(sentence, language)
        yield Pair(tuple(sentence.source), target, links, language)

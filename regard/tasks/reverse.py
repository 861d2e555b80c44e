"""Reverse and relabel: write random symbols backwards, in another alphabet.

The right alignment is the anti-diagonal, so attention can be checked word by word; and the sentence cannot be
guessed from its beginning, so a model without attention must carry all of it in one vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Self

from regard.data.parallel import Example
from regard.data.tokens import Tokenizer
from regard.errors import ConfigError, check_range, check_sizes
from regard.tasks.base import Split, own_card
from regard.tasks.translation import TranslationTask

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, kw_only=True)
class ReverseSettings:
    """How many symbols, how long, how many examples."""

    symbols: int = 16
    shortest: int = 4
    longest: int = 12
    backwards: bool = True  # False: in the order of the source, so that the alignment is the diagonal
    train: int = 20_000
    valid: int = 256
    test: int = 256
    seed: int = 1
    smoothing: float = 0.0  # label smoothing, in training alone


@own_card(
    "reverse",
    title="Reverse and relabel",
    sentence=(
        "Random symbols to be written backwards under another alphabet: the alignment is the anti-diagonal."
    ),
)
class ReverseTask(TranslationTask):
    """`c a b` becomes `y x z`: reversed, with each symbol renamed by a fixed permutation."""

    Settings = ReverseSettings
    languages = ("symbols", "symbols")

    @classmethod
    def create(cls, settings: ReverseSettings) -> Self:
        if not 2 <= settings.symbols <= len(ALPHABET):
            raise ConfigError(f"reverse: `symbols` has {settings.symbols}; expected 2 to {len(ALPHABET)}.")
        check_range("reverse", settings, "shortest", "longest")
        check_sizes("reverse", settings, "train", "test")
        every = [" ".join(ALPHABET[: settings.symbols])]
        tokenizer = Tokenizer.train(every, kind="words", language="symbols", lowercase=True)
        return cls(settings, tokenizer, tokenizer)

    def read(self, split: Split) -> Sequence[Example]:
        settings = self.settings
        symbols = ALPHABET[: settings.symbols]
        renamed = dict(zip(symbols, Random(settings.seed).sample(symbols, len(symbols)), strict=True))
        chance = Random(f"{settings.seed} {split}")
        examples = []
        for _ in range(getattr(settings, split)):
            word = chance.choices(symbols, k=chance.randint(settings.shortest, settings.longest))
            order = range(len(word))[:: -1 if settings.backwards else 1]
            target = [renamed[word[s]] for s in order]
            links = tuple(sorted((s, t) for t, s in enumerate(order)))
            examples.append(Example(" ".join(word), " ".join(target), links))
        return examples

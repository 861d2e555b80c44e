"""A few sentence pairs of different lengths, and a Transformer for them."""

import random
from pathlib import Path
from types import SimpleNamespace

from regard.data.parallel import Example
from regard.data.tokens import Tokenizer
from regard.tasks.translation import TranslationTask

WORDS = ["one", "two", "three", "four", "five", "six", "seven"]
TRANSFORMER = {
    "source_vocab": 4 + len(WORDS),
    "target_vocab": 4 + len(WORDS),
    "shared_vocab": 1,
    "layers": 2,
    "d_model": 8,
    "d_ff": 12,
    "dropout": 0.0,
    "tied": "all",
}


class Pairs(TranslationTask):
    """Sentences to be said backwards."""

    languages = ("en", "en")

    def read(self, split):
        chance = random.Random(f"pairs {split}")
        count = {"train": 33, "valid": 7, "test": 3}[split]
        sentences = [chance.choices(WORDS, k=chance.randint(1, 9)) for _ in range(count)]
        return [Example(" ".join(words), " ".join(reversed(words))) for words in sentences]

    def save(self, folder: Path) -> None:
        self.source.save(folder / "tokenizer.json")


def make_pairs() -> Pairs:
    tokenizer = Tokenizer.train([" ".join(WORDS)], kind="words", lowercase=True)
    return Pairs(SimpleNamespace(smoothing=0.0), tokenizer, tokenizer)

"""Language modelling sentence by sentence: the next word, given the words of its own sentence.

    loss = -Σ_t log p(w_t | w_1, …, w_{t-1}),   perplexity = exp(loss / words), end marks counted

The texts are those of the task `language`; here nothing is known of the sentence before. A model is called
with a `StreamBatch` whose targets are whole sentences. The units of `train.batch` are words, filling counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from torch import nn

from regard.catalog import card
from regard.data.ptb import EOS
from regard.data.sentences import Sentences
from regard.data.text_windows import StreamBatch
from regard.data.tokens import Tokenizer
from regard.data.wordlist import UNKNOWN, WordList
from regard.errors import DataError
from regard.tasks.base import Loss, Split
from regard.tasks.language import LanguageSettings, read_words, word_loss, words_of_rows


@dataclass(frozen=True, kw_only=True)
class SentenceSettings:
    """Which text."""

    corpus: Literal["grammar", "ptb", "dataset"] = "grammar"  # dataset: rows in memory
    data: str = ""  # the folder that holds the corpus; empty: REGARD_DATA
    text: str = ""  # a text file instead of the corpus, one sentence a line, plain or .gz
    size: int = 10_000  # words of the vocabulary; rarer ones become <unk>

    def source(self) -> LanguageSettings:
        """The text as the task `language` names it."""
        return LanguageSettings(corpus=self.corpus, data=self.data, text=self.text, size=self.size)


@card(
    "task",
    "sentences",
    title="Language modelling, sentence by sentence",
    authors="regard",
    year=2026,
    sentence="The next word of a sentence, given its own words alone; the texts of the task `language`.",
)
class SentenceTask:
    """The next word of a sentence."""

    Settings = SentenceSettings
    gives = "single sentences"

    def __init__(self, settings: SentenceSettings, words: WordList) -> None:
        self.settings, self.words = settings, words
        self._sentences: dict[Split, Sentences] = {}

    @classmethod
    def create(cls, settings: SentenceSettings) -> Self:
        training = read_words(settings.source(), "train")
        read_words(settings.source(), "valid")  # what is wrong is told before training, not after
        return cls(settings, WordList.learn(training, first=(EOS, UNKNOWN), size=settings.size))

    @classmethod
    def from_dataset(cls, dataset: Any, settings: SentenceSettings, *, column: str = "text") -> Self:
        """The task of sentences in memory (regard/data/rows.py); the settings' corpus is "dataset"."""
        texts = words_of_rows(dataset, settings.source(), column)
        task = cls(settings, WordList.learn(texts["train"], first=(EOS, UNKNOWN), size=settings.size))
        task._sentences = {split: task._numbered(words) for split, words in texts.items()}
        return task

    @classmethod
    def restore(cls, settings: SentenceSettings, folder: Path) -> Self:
        return cls(settings, WordList.load(folder / "words.json"))

    def save(self, folder: Path) -> None:
        self.words.save(folder / "words.json")

    def sentences(self, split: Split) -> Sentences:
        """The sentences of a split as numbers."""
        if split not in self._sentences:
            self._sentences[split] = self._numbered(read_words(self.settings.source(), split))
        return self._sentences[split]

    def _numbered(self, words: list[str]) -> Sentences:
        return Sentences(self.words.numbers(words), mark=self.words.number(EOS))

    def sizes(self) -> dict[str, int]:
        return {"vocab": len(self.words)}

    def plan(self, epoch: int, *, seed: int, batch: int) -> list[list[int]]:
        return self.sentences("train").shuffled_plan(words=batch, epoch=epoch, seed=seed)

    def evaluation_plan(self, split: Split, *, batch: int) -> list[list[int]]:
        return self.sentences(split).plan(words=batch)

    def batch(self, split: Split, rows: Sequence[int]) -> StreamBatch:
        return self.sentences(split).batch(rows)

    def loss(self, model: nn.Module, batch: StreamBatch) -> Loss:
        """Cross-entropy, summed over the words and the end marks."""
        return word_loss(model(batch), batch)

    def read(self, text: str) -> tuple[list[str], StreamBatch]:
        """A sentence of the user's: its words as the model knows them, and the batch of it alone."""
        words = [known for piece in CUTTER.pieces(text) if (known := self._known(piece)) is not None]
        if not words:
            raise DataError("sentences: the text has no words; expected a sentence.")
        return words, Sentences(self.words.numbers([*words, EOS]), mark=self.words.number(EOS)).batch([0])

    def _known(self, piece: str) -> str | None:
        """A piece of raw text as the corpus would write it; None for a sign that it does not write."""
        for word in (piece, piece.lower(), "N" if piece[:1].isdigit() else piece):
            if word in self.words:
                return word
        return UNKNOWN if any(letter.isalnum() for letter in piece) else None


CUTTER = Tokenizer.train((), kind="words")

"""Language modelling: the next word of a text, given the words before it.

    loss = -Σ_t log p(w_t | w_{t-C}, …, w_{t-1}),   perplexity = exp(loss / words)

    [task]
    name = "language"
    corpus = "ptb"               # Penn Treebank, from `data` or REGARD_DATA; "grammar" needs no data
    text = "novel.txt"           # or a text of your own, one sentence or paragraph a line, plain or .gz

A model of this task is called with a `StreamBatch` and gives the scores (B, T, V) of its targets. Training
goes through windows of `predict` words in random order, each with `context` words before it. The units of
`train.batch` are predicted words.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import nn

from regard.data.grammar import generate
from regard.data.parallel import read_lines
from regard.data.ptb import EOS, read_ptb, sentences_to_words
from regard.data.rows import Rows, no_rows, require_dataset
from regard.data.sentences import Sentences
from regard.data.text_windows import StreamBatch, WordStream
from regard.data.tokens import split_words
from regard.data.wordlist import UNKNOWN, WordList
from regard.errors import DataError, check_sizes
from regard.tasks.base import SPLITS, Loss, Split, WordListTask, own_card

HELD_OUT = 20  # of a user's text, one line in this many is for validation, and one for the test
SENTENCES = {"train": 20_000, "valid": 1_000, "test": 1_000}  # of the embedded grammar

Text = TypeVar("Text", WordStream, Sentences)  # the words of a split as examples


@dataclass(frozen=True, kw_only=True)
class WordSettings:
    """Which text."""

    corpus: Literal["grammar", "ptb", "dataset"] = "grammar"  # dataset: rows in memory
    data: str = ""  # the folder that holds the corpus; empty: REGARD_DATA
    text: str = ""  # a text file instead of the corpus, one sentence or paragraph a line, plain or .gz
    size: int = 10_000  # words of the vocabulary; rarer ones become <unk>

    def __post_init__(self) -> None:
        check_sizes("language", self, "size", least=3)


class WordTask(WordListTask, Generic[Text]):
    """A task on the words of a text; a subclass cuts them into examples."""

    def __init__(self, settings: Any, words: WordList) -> None:
        super().__init__(settings, words)
        self._held: dict[Split, Text] = {}

    @classmethod
    def create(cls, settings: WordSettings) -> Self:
        training = read_words(settings, "train")
        read_words(settings, "valid")  # report errors before training
        return cls(settings, WordList.learn(training, first=(EOS, UNKNOWN), size=settings.size))

    @classmethod
    def from_dataset(cls, dataset: Any, settings: WordSettings, *, column: str = "text") -> Self:
        """The task on text in memory (regard/data/rows.py); the settings' corpus is "dataset"."""
        texts = words_of_rows(dataset, settings, column)
        task = cls(settings, WordList.learn(texts["train"], first=(EOS, UNKNOWN), size=settings.size))
        for split, words in texts.items():
            task._held[split] = task.cut(words)
        return task

    def cut(self, words: list[str]) -> Text:
        """The words of a split as examples."""
        raise NotImplementedError(f"{type(self).__name__} defines no cut(words).")

    def held(self, split: Split) -> Text:
        """The examples of a split."""
        if split not in self._held:
            self._held[split] = self.cut(read_words(self.settings, split))
        return self._held[split]

    def batch(self, split: Split, rows: Sequence[int]) -> StreamBatch:
        return self.held(split).batch(rows)

    def loss(self, model: nn.Module, batch: StreamBatch) -> Loss:
        """Cross-entropy, summed over the words that count."""
        t = torch.arange(batch.targets.shape[1], device=batch.targets.device)
        targets = batch.targets.masked_fill(t >= batch.counts[:, None], -100)
        flat = model(batch).flatten(0, 1).float()
        total = F.cross_entropy(flat, targets.flatten(), ignore_index=-100, reduction="sum")
        return Loss(total, batch.counts.sum())


@dataclass(frozen=True, kw_only=True)
class LanguageSettings(WordSettings):
    """Which text, and how it is cut into windows."""

    context: int = 1  # words read before the first prediction of a window
    predict: int = 35  # words predicted in a window

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes("language", self, "context", "predict")


@own_card(
    "language",
    title="Language modelling",
    sentence="The next word of a text: Penn Treebank, the embedded grammar, or a text of your own.",
)
class LanguageTask(WordTask[WordStream]):
    """The next word of a text."""

    Settings = LanguageSettings
    gives = "running text"
    settings: LanguageSettings

    def cut(self, words: list[str]) -> WordStream:
        context, predict, start = self.settings.context, self.settings.predict, self.words.number(EOS)
        return WordStream(self.words.numbers(words), context=context, predict=predict, start=start)

    def sizes(self) -> dict[str, int]:
        return {"vocab": len(self.words), "context": self.settings.context}

    def plan(self, epoch: int, *, seed: int, batch: int) -> list[list[int]]:
        return self.held("train").shuffled_plan(rows=self._rows(batch), epoch=epoch, seed=seed)

    def evaluation_plan(self, split: Split, *, batch: int) -> list[list[int]]:
        return self.held(split).plan(rows=self._rows(batch))

    def _rows(self, batch: int) -> int:
        return max(batch // self.settings.predict, 1)


def read_words(settings: WordSettings, split: Split) -> list[str]:
    """The words of a split: of the user's text, of Penn Treebank, or of the embedded grammar."""
    if settings.text:
        return read_text(settings.text, split)
    if settings.corpus == "ptb":
        return read_ptb(split, data=settings.data)
    if settings.corpus == "dataset":
        raise no_rows("language", "corpus")
    pairs = islice(generate("fr", split, words=(3, 20)), SENTENCES[split])
    return sentences_to_words([list(pair.source) for pair in pairs])


def read_text(path: str, split: Split) -> list[str]:
    """A user's text: of every twenty lines the last is for the test, the one before it for validation."""
    lines = cut_lines(read_lines(Path(path)))
    if len(lines) < HELD_OUT:
        raise DataError(
            f"{path}: has {len(lines)} lines with words; expected {HELD_OUT} or more, one sentence or "
            "paragraph a line, so that some can be held out."
        )
    places: dict[int, Split] = {HELD_OUT - 2: "valid", HELD_OUT - 1: "test"}
    chosen = [line for n, line in enumerate(lines) if places.get(n % HELD_OUT, "train") == split]
    return sentences_to_words(chosen)


def words_of_rows(dataset: Any, settings: WordSettings, column: str) -> dict[Split, list[str]]:
    """The words of all splits of rows in memory; a row has a text of one or more lines."""
    require_dataset("language", "corpus", settings.corpus)
    # empty rows, of which some corpora have many, are dropped before rows are held out
    rows = Rows("language", dataset, lambda row: str(row.get(column, "given")).strip() != "")
    found: dict[Split, list[str]] = {}
    for split in SPLITS:
        texts = [str(text) for row in rows[split] for text in rows.cells(row, column)]
        found[split] = sentences_to_words(cut_lines(line for text in texts for line in text.splitlines()))
    return found


def cut_lines(lines: Iterable[str]) -> list[list[str]]:
    """The lines as lower-cased words; lines without words are left out."""
    return [words for line in lines if (words := split_words(line.lower()))]

"""Entailment: is the second of two sentences true, false or undecided, given the first?

    loss = -Σ log p(label | premise, hypothesis)

The corpora are SICK, SNLI, an embedded toy, and rows in memory (`EntailmentTask.from_dataset`). Words are
lower-cased. An unknown word gets one of 100 ids by its spelling, so that it is the same word in both
sentences. With `vectors`, a file in GloVe's format, the vocabulary has the words of all splits, and the
model's embeddings start as those vectors, scaled to length one; a word without a vector shares that of one of
the 100 ids. The units of `train.batch` are pairs.

Parikh, Täckström, Das, Uszkoreit. A decomposable attention model for natural language inference. 2016.
https://arxiv.org/abs/1606.01933
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal, Protocol, Self, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches import in_batches, pad
from regard.data.entailment import (
    LABELS,
    NULL,
    UNLABELLED,
    Pair,
    PairTextBatch,
    cut,
    make_pairs,
    read_sick,
    read_snli,
    read_vectors,
    row_pair,
)
from regard.data.rows import Rows, no_rows, require_dataset
from regard.data.wordlist import WordList
from regard.errors import ConfigError, DataError, check_sizes
from regard.tasks.base import SPLITS, Loss, Split, WordListTask, own_card

UNKNOWN = tuple(f"<unk{number}>" for number in range(100))
FIRST = (NULL, *UNKNOWN)
POOL = 20  # batches whose pairs are sorted by length together
SEPARATOR = "|||"


@runtime_checkable
class TakesVectors(Protocol):
    """A model that accepts word vectors."""

    def take_vectors(self, vectors: Tensor) -> None:
        """(V, D) one vector for each word id."""


@dataclass(frozen=True, kw_only=True)
class EntailmentSettings:
    """Which pairs."""

    corpus: Literal["toy", "sick", "snli", "dataset"] = "toy"  # dataset: rows in memory
    data: str = ""  # the folder that holds the corpus; empty: REGARD_DATA
    vectors: str = ""  # a file of word vectors in GloVe's text format, plain or .gz; empty: random ones
    size: int = 50_000  # words of the vocabulary, the most frequent
    train: int = 40_000  # toy: pairs
    valid: int = 1_000
    test: int = 4_000
    seed: int = 1

    def __post_init__(self) -> None:
        check_sizes("entailment", self, "train", "valid", "test")
        if self.size <= len(FIRST):
            raise ConfigError(
                f"entailment: `size` has {self.size}; expected more than {len(FIRST)}, which are NULL and "
                f"the {len(UNKNOWN)} unknown words."
            )


@own_card(
    "entailment",
    title="Entailment",
    sentence="Does the second sentence follow from the first? SICK, SNLI, or an embedded toy of antonyms.",
)
class EntailmentTask(WordListTask):
    """Entailment, neutral or contradiction."""

    Settings = EntailmentSettings
    gives = "labelled pairs of sentences"
    labels = LABELS
    unknown = UNKNOWN[0]

    def __init__(self, settings: EntailmentSettings, words: WordList) -> None:
        super().__init__(settings, words)
        self._pairs: dict[Split, list[Pair]] = {}

    @classmethod
    def create(cls, settings: EntailmentSettings) -> Self:
        if settings.vectors and not Path(settings.vectors).is_file():
            raise DataError(
                f"entailment: `vectors` has {settings.vectors}, which is not a file; expected one of "
                "GloVe's format."
            )
        # with pretrained vectors, words of the test set are known even if training lacks them
        read = SPLITS if settings.vectors else SPLITS[:2]
        return cls._learn(settings, {split: read_pairs(settings, split) for split in read})

    @classmethod
    def _learn(cls, settings: EntailmentSettings, pairs: dict[Split, list[Pair]]) -> Self:
        listed = SPLITS if settings.vectors else SPLITS[:1]
        said = (word for split in listed for pair in pairs[split] for word in pair.premise + pair.hypothesis)
        task = cls(settings, WordList.learn(said, first=FIRST, unknown=UNKNOWN[0], size=settings.size))
        task._pairs.update(pairs)
        return task

    @classmethod
    def from_dataset(
        cls,
        dataset: Any,
        settings: EntailmentSettings,
        *,
        columns: tuple[str, str, str] = ("premise", "hypothesis", "label"),
    ) -> Self:
        """The task of labelled pairs in memory (regard/data/rows.py); the settings' corpus is "dataset".

        A label is a word of LABELS, or a number: of the dataset's own names where it has them, else of
        LABELS. Pairs without one (-1, "-", None) are left out.
        """
        require_dataset("entailment", "corpus", settings.corpus)
        rows = Rows("entailment", dataset, lambda row: row.get(columns[2], 0) not in (None, "", "-", -1))
        names = rows.names(columns[2]) or LABELS
        return cls._learn(
            settings,
            {split: [row_pair(rows.cells(row, *columns), names) for row in rows[split]] for split in SPLITS},
        )

    def fill(self, model: nn.Module) -> None:
        """Initialise the model's embeddings with the vectors of the settings, before training."""
        if not self.settings.vectors:
            return
        if not isinstance(model, TakesVectors):
            raise ConfigError(
                f"entailment: `vectors` are given, but {type(model).__name__} takes none. Leave the key out."
            )
        model.take_vectors(self.vectors())

    def vectors(self) -> Tensor:
        """(V, D) the pretrained vector of each word, normalised; a random one for words without."""
        found = read_vectors(Path(self.settings.vectors), self.words.words)
        if not found:
            raise DataError(f"{self.settings.vectors}: no word of the corpus is in it; expected its vectors.")
        size = len(next(iter(found.values())))
        table = torch.randn(len(self.words), size, generator=torch.Generator().manual_seed(0))
        for number, word in enumerate(self.words.words[len(FIRST) :], len(FIRST)):
            # words without a vector share those of the unknown words
            table[number] = torch.tensor(found[word]) if word in found else table[self._unknown(word)]
        return F.normalize(table, dim=-1)

    def sizes(self) -> dict[str, int]:
        return {"vocab": len(self.words), "classes": len(LABELS)}

    def pairs(self, split: Split) -> list[Pair]:
        """The pairs of a split."""
        if split not in self._pairs:
            self._pairs[split] = read_pairs(self.settings, split)
        return self._pairs[split]

    def plan(self, epoch: int, *, seed: int, batch: int) -> list[list[int]]:
        """Every pair once, shuffled, in batches of similar length."""
        chance = Random(f"{seed} {epoch}")
        order = list(range(len(self.pairs("train"))))
        chance.shuffle(order)
        sorted_pools = [sorted(pool, key=self._length) for pool in in_batches(order, POOL * batch)]
        batches = [rows for pool in sorted_pools for rows in in_batches(pool, batch)]
        chance.shuffle(batches)
        return batches

    def evaluation_plan(self, split: Split, *, batch: int) -> list[list[int]]:
        return in_batches(range(len(self.pairs(split))), batch)

    def batch(self, split: Split, rows: Sequence[int]) -> PairTextBatch:
        return self.tensors([self.pairs(split)[row] for row in rows])

    def tensors(self, pairs: Sequence[Pair]) -> PairTextBatch:
        """The pairs as ids, NULL before each sentence."""
        premise, premise_lengths = pad([self.numbers(pair.premise) for pair in pairs])
        hypothesis, hypothesis_lengths = pad([self.numbers(pair.hypothesis) for pair in pairs])
        labels = torch.tensor([pair.label for pair in pairs], dtype=torch.long)
        return PairTextBatch(premise, premise_lengths, hypothesis, hypothesis_lengths, labels)

    def numbers(self, words: Sequence[str]) -> list[int]:
        """The ids of NULL and the words."""
        known = [self.words.number(w) if w in self.words else self._unknown(w) for w in words]
        return [self.words.number(NULL), *known]

    def loss(self, model: nn.Module, batch: PairTextBatch) -> Loss:
        """Cross-entropy, summed over the pairs."""
        total = F.cross_entropy(model(batch).float(), batch.labels, reduction="sum", ignore_index=UNLABELLED)
        return Loss(total, (batch.labels != UNLABELLED).sum())

    def read(self, text: str) -> Pair:
        """A user's pair, "premise ||| hypothesis", without a label."""
        cut_words = str.split if self.settings.corpus == "toy" else cut  # its antonyms begin with a minus
        sentences = [tuple(cut_words(part)) for part in text.split(SEPARATOR)]
        if len(sentences) != 2 or not all(sentences):
            raise DataError(
                f"entailment: {text!r} is not a pair; expected two sentences, PREMISE {SEPARATOR} HYPOTHESIS."
            )
        return Pair(sentences[0], sentences[1], UNLABELLED)

    def _length(self, number: int) -> int:
        pair = self.pairs("train")[number]
        return len(pair.premise) + len(pair.hypothesis)

    def _unknown(self, word: str) -> int:
        """The id of a word that is not listed: the same in every run and on every machine."""
        return self.words.number(UNKNOWN[zlib.crc32(word.encode()) % len(UNKNOWN)])


def read_pairs(settings: EntailmentSettings, split: Split) -> list[Pair]:
    """The pairs that the settings name."""
    if settings.corpus == "toy":
        return make_pairs(split, getattr(settings, split), seed=settings.seed)
    if settings.corpus == "dataset":
        raise no_rows("entailment", "corpus")
    read = read_sick if settings.corpus == "sick" else read_snli
    return read(split, data=settings.data)

"""Sentence pairs with a label, from public files or generated: does the hypothesis follow from the premise?

    SICK    SICK.txt, tab-separated, a header line; SemEval_set says TRAIN, TRIAL (here valid) or TEST
    SNLI    snli_1.0_train.jsonl, …_dev.jsonl, …_test.jsonl: one JSON object per line; or the same as .txt,
            tab-separated with a header line; pairs without a gold label, "-", are left out
    toy     generated, see `make_pairs`

The files may be plain or .gz, in the folder that `task.data` or REGARD_DATA names. Every sentence begins with
NULL, an empty word to which words without a partner can be aligned.

Marelli et al. A SICK cure for the evaluation of compositional distributional semantic models. LREC 2014.
Bowman, Angeli, Potts, Manning. A large annotated corpus for learning natural language inference. 2015.
https://arxiv.org/abs/1508.05326
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple, Self

import torch.nn.functional as F
from torch import Tensor

from regard.data.folders import find_file
from regard.data.parallel import stream_lines
from regard.data.tensor_batch import TensorBatch
from regard.data.tokens import split_words
from regard.errors import DataError

Split = Literal["train", "valid", "test"]

LABELS = ("entailment", "neutral", "contradiction")
NULL = "<null>"
UNLABELLED = -1  # the label of a padding row
ROUND_LENGTHS, ROUND_ROWS = 8, 16  # what the shapes of rounded batches are multiples of

SICK_HOME = "https://zenodo.org/records/2787612 (SICK.zip)."
SICK_SETS: dict[Split, str] = {"train": "TRAIN", "valid": "TRIAL", "test": "TEST"}
SICK_COLUMNS = ("sentence_A", "sentence_B", "entailment_label", "SemEval_set")
SNLI_HOME = "https://nlp.stanford.edu/projects/snli/ (snli_1.0.zip)."
SNLI_FILES: dict[Split, str] = {"train": "train", "valid": "dev", "test": "test"}
SNLI_FIELDS = ("gold_label", "sentence1", "sentence2")


class Pair(NamedTuple):
    """A premise, a hypothesis and the index of their label in LABELS."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: int


@dataclass(frozen=True)
class PairTextBatch(TensorBatch):
    """Premises and hypotheses as ids, NULL first; the lengths define the padding."""

    premise: Tensor  # (B, Ta)
    premise_lengths: Tensor  # (B,)
    hypothesis: Tensor  # (B, Tb)
    hypothesis_lengths: Tensor  # (B,)
    labels: Tensor  # (B,) UNLABELLED in padding rows

    def rounded(self) -> Self:
        """The same batch, padded to one of few shapes. New rows hold only NULL and have no label."""
        more = -self.size % ROUND_ROWS

        def widen(words: Tensor) -> Tensor:
            return F.pad(words, (0, -words.shape[1] % ROUND_LENGTHS, 0, more))

        return type(self)(
            widen(self.premise),
            F.pad(self.premise_lengths, (0, more), value=1),
            widen(self.hypothesis),
            F.pad(self.hypothesis_lengths, (0, more), value=1),
            F.pad(self.labels, (0, more), value=UNLABELLED),
        )


def cut(sentence: str) -> tuple[str, ...]:
    """A sentence as lower-cased words."""
    return tuple(split_words(sentence.lower()))


def row_pair(cells: Sequence[Any], names: Sequence[str]) -> Pair:
    """Premise, hypothesis and label, which is a word or an index into `names`."""
    premise, hypothesis, label = cells
    if not isinstance(label, str):
        if not 0 <= int(label) < len(names):
            raise DataError(
                f"entailment: a row of the dataset has the label {label}; expected 0 to {len(names) - 1}."
            )
        label = names[int(label)]
    number = _label(label.lower(), "entailment: a row of the dataset")
    return Pair(cut(str(premise)), cut(str(hypothesis)), number)


def read_sick(split: Split, *, data: str = "") -> list[Pair]:
    """The pairs of a split of SICK."""
    names, folders = ("SICK.txt", "SICK.txt.gz"), ("sick", "SICK")
    path = find_file("sick", names, data=data, folders=folders, home=SICK_HOME)
    pairs = [
        Pair(cut(premise), cut(hypothesis), _label(label.lower(), where))
        for where, (premise, hypothesis, label, part) in _columns(
            path, SICK_COLUMNS, "the header of SICK.txt"
        )
        if part == SICK_SETS[split]
    ]
    return _some(pairs, path, split)


def _columns(path: Path, names: Sequence[str], expected: str) -> Iterator[tuple[str, list[str]]]:
    """For each line of a tab-separated file its location and its cells in the named columns."""
    rows = ((number, line.split("\t")) for number, line in enumerate(stream_lines(path), 1) if line)
    _, header = next(rows, (1, []))
    missing = [name for name in names if name not in header]
    if missing:
        raise DataError(f"{path}: the first line has no column {missing[0]}; expected {expected}.")
    places = [header.index(name) for name in names]
    for number, cells in rows:
        if len(cells) <= max(places):
            raise DataError(f"{path}: line {number} has {len(cells)} columns; expected {len(header)}.")
        yield f"{path}: line {number}", [cells[place] for place in places]


def read_snli(split: Split, *, data: str = "") -> list[Pair]:
    """The pairs of a split of SNLI that have a gold label."""
    stem = f"snli_1.0_{SNLI_FILES[split]}"
    names = [f"{stem}{ending}" for ending in (".jsonl", ".jsonl.gz", ".txt", ".txt.gz")]
    path = find_file("snli", names, data=data, folders=("snli_1.0", "snli"), home=SNLI_HOME)
    tabbed = path.name.removesuffix(".gz").endswith(".txt")
    rows = _columns(path, SNLI_FIELDS, "the header of SNLI's .txt files") if tabbed else _objects(path)
    pairs = [
        Pair(cut(premise), cut(hypothesis), _label(label, where))
        for where, (label, premise, hypothesis) in rows
        if label != "-"
    ]
    return _some(pairs, path, split)


def _objects(path: Path) -> Iterator[tuple[str, list[str]]]:
    """For each line of an SNLI JSON file its location and its fields SNLI_FIELDS."""
    for number, line in enumerate(stream_lines(path), 1):
        if not line:
            continue
        where = f"{path}: line {number}"
        try:
            record = json.loads(line)
        except ValueError as error:
            raise DataError(f"{where} is not JSON; expected one object a line.") from error
        fits = isinstance(record, dict) and all(isinstance(record.get(name), str) for name in SNLI_FIELDS)
        if not fits:
            raise DataError(f"{where} has other fields; expected the texts {', '.join(SNLI_FIELDS)}.")
        yield where, [record[name] for name in SNLI_FIELDS]


def _label(name: str, where: str) -> int:
    if name not in LABELS:
        raise DataError(f"{where} has the label {name!r}; expected {', '.join(LABELS)}.")
    return LABELS.index(name)


def _some(pairs: list[Pair], path: Path, split: Split) -> list[Pair]:
    if not pairs:
        raise DataError(f"{path}: has no {split} pairs; expected one or more.")
    return pairs


WORDS = 60  # in the toy, each with an antonym
LONG, SHORT = 8, 4  # words in its premises and hypotheses


def make_pairs(split: Split, count: int, *, seed: int) -> list[Pair]:
    """Pairs of the toy: words w0 … w59 and their antonyms -w0 … -w59.

    The premise has 8 distinct words. The hypothesis has 4 of them; in a contradiction one is replaced by its
    antonym, in a neutral pair by a word that is not in the premise. The labels are equally frequent. Only
    hypotheses contain antonyms, so a contradiction is visible without the premise; telling entailment from
    neutral needs an alignment.
    """
    return [_make_pair(Random(f"{seed} {split} {number}"), number % 3) for number in range(count)]


def _make_pair(chance: Random, label: int) -> Pair:
    *told, other = chance.sample(range(WORDS), LONG + 1)
    premise = [f"w{word}" for word in told]
    hypothesis = chance.sample(premise, SHORT)
    place = chance.randrange(SHORT)
    if LABELS[label] == "contradiction":
        hypothesis[place] = f"-{hypothesis[place]}"
    if LABELS[label] == "neutral":
        hypothesis[place] = f"w{other}"
    return Pair(tuple(premise), tuple(hypothesis), label)


def read_vectors(path: Path, wanted: Iterable[str]) -> dict[str, list[float]]:
    """The vectors of the wanted words from a GloVe text file: a word and its numbers per line.

    A header of two numbers, the count and length of the vectors (word2vec's format), is skipped.
    """
    needed = set(wanted)
    found: dict[str, list[float]] = {}
    size = 0
    for number, line in enumerate(stream_lines(path), 1):
        word, *cells = line.split(" ")
        if number == 1 and len(cells) == 1:
            continue  # the header of word2vec's text format
        # a few words of the public files contain spaces: count the numbers from the end
        size = size or len(cells)
        word = " ".join([word, *cells[: max(len(cells) - size, 0)]])
        if word in needed and word not in found:
            found[word] = _numbers(cells[-size:] if size else [], size, f"{path}: line {number}")
    return found


def _numbers(cells: Sequence[str], size: int, where: str) -> list[float]:
    try:
        numbers = [float(cell) for cell in cells]
    except ValueError:
        numbers = []
    if len(numbers) != size or not numbers or not all(map(math.isfinite, numbers)):
        raise DataError(f"{where} is not a vector; expected a word and {size or 'its'} numbers, as in GloVe.")
    return numbers

"""Measure labels: accuracy, precision and recall of each class, and which was taken for which."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.decode.base import GREEDY, Decoding, evaluating
from regard.evaluate.base import Advance, MeasureTable
from regard.evaluate.divided import divide
from regard.models.base import Model
from regard.tasks.base import Split

BATCH = 128


class ClassificationTask(Protocol):
    """What is needed of a task: names of the labels, and batches that have `labels` (B,)."""

    labels: Sequence[str]

    def evaluation_plan(self, split: Split, *, batch: int) -> Sequence[Sequence[int]]: ...

    def batch(self, split: Split, rows: Sequence[int]) -> Any: ...


@dataclass(frozen=True)
class Classification:
    """What was measured on a split."""

    split: Split
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]  # counts[right][said]
    seconds: float

    @property
    def accuracy(self) -> float:
        return sum(self.counts[c][c] for c in range(len(self.labels))) / max(self.examples, 1)

    @property
    def examples(self) -> int:
        return sum(map(sum, self.counts))

    def recall(self, label: int) -> float | None:
        """The share of a class that was recognised; None for a class without examples."""
        return _share(self.counts[label][label], sum(self.counts[label]))

    def precision(self, label: int) -> float | None:
        """The share of what was said to be of a class and is; None where it was never said."""
        return _share(self.counts[label][label], sum(row[label] for row in self.counts))

    def headline(self) -> tuple[str, float]:
        return "accuracy", self.accuracy

    def measures(self) -> list[tuple[str, str]]:
        most = max(sum(row) for row in self.counts) / max(self.examples, 1)
        return [
            ("accuracy", f"{self.accuracy:.3f}"),
            ("always the most frequent label", f"{most:.3f}"),
            ("examples", str(self.examples)),
        ]

    def tables(self) -> list[MeasureTable]:
        """Each class, and the confusions: a row for each right label, a column for each that was said."""
        each = [
            (label, str(sum(self.counts[c])), _shown(self.recall(c)), _shown(self.precision(c)))
            for c, label in enumerate(self.labels)
        ]
        confusion = [(label, *map(str, row)) for label, row in zip(self.labels, self.counts, strict=True)]
        return [
            MeasureTable(("class", "examples", "recall", "precision"), each),
            MeasureTable(("right \\ said", *self.labels), confusion),
        ]

    def summary(self) -> dict[str, Any]:
        return {
            "split": self.split,
            "examples": self.examples,
            "accuracy": round(self.accuracy, 4),
            "recall": {label: _rounded(self.recall(c)) for c, label in enumerate(self.labels)},
            "precision": {label: _rounded(self.precision(c)) for c, label in enumerate(self.labels)},
            "confusion": [list(row) for row in self.counts],
            "seconds": round(self.seconds, 1),
        }


def evaluate_classification(
    model: Model,
    task: ClassificationTask,
    split: Split = "test",
    *,
    decoding: Decoding = GREEDY,
    progress: Advance | None = None,
) -> Classification:
    """Label every example of a split."""
    started = time.perf_counter()
    device = next(model.parameters()).device
    n = len(task.labels)

    def count(rows: Sequence[int]) -> Tensor:
        batch = task.batch(split, rows).to(device)
        with evaluating(model):
            said = model(batch).argmax(-1)
        if progress is not None:
            progress(len(rows))
        return (batch.labels * n + said).cpu().bincount(minlength=n * n)

    counts = torch.zeros(n * n, dtype=torch.long)
    for found in divide(task.evaluation_plan(split, batch=BATCH), count):
        counts += found
    table = tuple(tuple(row) for row in counts.view(n, n).tolist())
    return Classification(split, tuple(task.labels), table, time.perf_counter() - started)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _shown(share: float | None) -> str:
    return "" if share is None else f"{share:.3f}"


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)

"""Evaluates classification: accuracy, precision and recall per class, and the confusion matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decode.base import Decoding
from regard.evaluate.base import Advance, Evaluation, MeasureTable, by_batch, evaluator
from regard.models.base import Model
from regard.tasks.base import Split
from regard.tasks.entailment import EntailmentTask
from regard.tasks.picture_classes import PictureClassesTask

BATCH = 128


@dataclass(frozen=True)
class Classification(Evaluation):
    """The confusion matrix of a split."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]  # counts[true][predicted]

    @property
    def accuracy(self) -> float:
        return sum(self.counts[c][c] for c in range(len(self.labels))) / max(self.examples, 1)

    @property
    def examples(self) -> int:
        return sum(map(sum, self.counts))

    def recall(self, label: int) -> float | None:
        """The share of a class that was recognized; None for a class without examples."""
        return _share(self.counts[label][label], sum(self.counts[label]))

    def precision(self, label: int) -> float | None:
        """The share of predictions of a class that are right; None if it was never predicted."""
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
        """Recall and precision per class, and the confusion matrix (rows: true labels)."""
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


@evaluator
def evaluate_classification(
    model: Model,
    task: EntailmentTask | PictureClassesTask,
    split: Split,
    decoding: Decoding,
    progress: Advance,
) -> Classification:
    """Classify every example of a split."""
    device = next(model.parameters()).device
    n = len(task.labels)

    def count(rows: Sequence[int]) -> Tensor:
        batch = task.batch(split, rows).to(device)
        return (batch.labels * n + model(batch).argmax(-1)).cpu().bincount(minlength=n * n)

    counts = sum(by_batch(task, split, count, batch=BATCH, progress=progress), torch.zeros(n * n).long())
    return Classification(split, tuple(task.labels), tuple(map(tuple, counts.view(n, n).tolist())))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _shown(share: float | None) -> str:
    return "" if share is None else f"{share:.3f}"


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)

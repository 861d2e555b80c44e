"""Evaluates recall by number of pairs: accuracy of the values, and of the attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from regard.attention.record import record_any
from regard.decode.base import Decoding
from regard.evaluate.base import Advance, Evaluation, MeasureTable, by_batch, evaluator
from regard.models.base import Model
from regard.tasks.base import Split
from regard.tasks.recall import RecallTask

BATCH = 250


@dataclass(frozen=True)
class PairsScore:
    """The measurements for one number of pairs."""

    pairs: int
    sequences: int
    right: float  # accuracy
    found: float | None  # share with the largest weight on the right pair; None without attention


@dataclass(frozen=True)
class RecallEvaluation(Evaluation):
    """The measurements on a split, by number of pairs."""

    trained_on: tuple[int, int]  # pairs of the training sequences, shortest and longest
    scores: tuple[PairsScore, ...]

    def headline(self) -> tuple[str, float]:
        """Accuracy over the numbers of pairs seen in training."""
        low, high = self.trained_on
        seen = [score for score in self.scores if low <= score.pairs <= high] or list(self.scores)
        right = sum(score.right * score.sequences for score in seen) / sum(score.sequences for score in seen)
        return "accuracy", right

    def measures(self) -> list[tuple[str, str]]:
        low, high = self.trained_on
        return [(f"accuracy at {low} to {high} pairs, as trained", f"{self.headline()[1]:.3f}")]

    def tables(self) -> list[MeasureTable]:
        rows = [
            (str(s.pairs), str(s.sequences), f"{s.right:.3f}", "" if s.found is None else f"{s.found:.3f}")
            for s in self.scores
        ]
        return [MeasureTable(("pairs", "sequences", "accuracy", "looked at the pair"), rows)]

    def summary(self) -> dict[str, Any]:
        return {
            "split": self.split,
            "accuracy": round(self.headline()[1], 4),
            "by_pairs": [
                {
                    "pairs": s.pairs,
                    "sequences": s.sequences,
                    "accuracy": round(s.right, 4),
                    "found": None if s.found is None else round(s.found, 4),
                }
                for s in self.scores
            ],
            "seconds": round(self.seconds, 1),
        }


@evaluator
def evaluate_recall(
    model: Model, task: RecallTask, split: Split, decoding: Decoding, progress: Advance
) -> RecallEvaluation:
    """Query one value of each sequence of a split."""
    counts: dict[int, list[int]] = {}  # pairs -> sequences, right, found
    device = next(model.parameters()).device

    def ask(rows: Sequence[int]) -> list[tuple[int, int, int, int]]:
        answers = []
        examples = [task.example(split, row) for row in rows]
        for pairs in sorted({len(example.pairs) for example in examples}):
            same = [example for example in examples if len(example.pairs) == pairs]
            batch = task.tensors(same, steps=pairs + 1).to(device)
            with record_any(model) as trace:
                right = int((model(batch).argmax(-1) == batch.labels).sum())
            found = 0
            if model.aligner is not None:
                places = torch.tensor([example.place for example in same], device=device)
                weights = trace[model.aligner][-1].weights[:, 0]  # (B, S) at the query step
                slots = weights.argmax(-1) + pairs + 1 - weights.shape[-1]  # a span drops the first slots
                found = int((slots - 1 == places).sum())  # slot 0 holds no pair
            answers.append((pairs, len(same), right, found))
        return answers

    for pairs, *numbers in chain(*by_batch(task, split, ask, batch=BATCH, progress=progress)):
        total = counts.setdefault(pairs, [0, 0, 0])
        for k, number in enumerate(numbers):
            total[k] += number
    scores = tuple(
        PairsScore(pairs, n, right / n, None if model.aligner is None else found / n)
        for pairs, (n, right, found) in sorted(counts.items())
    )
    return RecallEvaluation(split, (task.settings.shortest, task.settings.longest), scores)

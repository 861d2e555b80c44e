"""Evaluates few-shot classification: accuracy on the queries with its 95 % interval, by shots.

    accuracy ± 1.96 · √(p (1 - p) / n)          n episodes of one query each, drawn independently

Also reported: a baseline without learning (the label of the drawing with the nearest pixels), and for each
attention block how much of the query's weight is on drawings of its class.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.attention.record import record_any
from regard.data.episodes import EpisodeBatch
from regard.decode.base import Decoding
from regard.evaluate.base import Advance, Evaluation, MeasureTable, by_batch, evaluator
from regard.models.base import Model
from regard.tasks.base import Split
from regard.tasks.fewshot import FewShotTask

BATCH = 100  # episodes


@dataclass(frozen=True)
class ShotsScore:
    """The measurements for one number of shots."""

    shots: int
    episodes: int
    right: float  # accuracy on the queries
    nearest: float  # accuracy of the nearest drawing by pixels
    looked: dict[str, float] = field(default_factory=dict)  # attention block -> weight on the query's class

    @property
    def interval(self) -> float:
        """Half the width of the 95 % confidence interval."""
        return 1.96 * math.sqrt(self.right * (1 - self.right) / self.episodes)


@dataclass(frozen=True)
class FewShotEvaluation(Evaluation):
    """The measurements on a split, by number of shots."""

    ways: int
    scores: tuple[ShotsScore, ...]

    def headline(self) -> tuple[str, float]:
        """Accuracy for the first tested number of shots."""
        return "accuracy", self.scores[0].right

    def measures(self) -> list[tuple[str, str]]:
        found = []
        for s in self.scores:
            name = f"{self.ways}-way {s.shots}-shot"
            found.append((f"accuracy, {name}", f"{100 * s.right:.2f} %"))
            found.append((f"95 % interval, {name}, plus and minus", f"{100 * s.interval:.2f} %"))
        return found

    def tables(self) -> list[MeasureTable]:
        rows = [
            (
                str(s.shots),
                str(s.episodes),
                f"{s.right:.4f}",
                f"{s.interval:.4f}",
                f"{s.nearest:.4f}",
                ", ".join(f"{weight:.2f}" for weight in s.looked.values()),
            )
            for s in self.scores
        ]
        columns = ("shots", "episodes", "accuracy", "±", "nearest by pixels", "weight on the class, by block")
        return [MeasureTable(columns, rows)]

    def summary(self) -> dict[str, Any]:
        return {
            "split": self.split,
            "ways": self.ways,
            "accuracy": round(self.scores[0].right, 4),
            "by_shots": [
                {
                    "shots": s.shots,
                    "episodes": s.episodes,
                    "accuracy": round(s.right, 4),
                    "interval": round(s.interval, 4),
                    "nearest_by_pixels": round(s.nearest, 4),
                    "weight_on_class": {path: round(weight, 4) for path, weight in s.looked.items()},
                }
                for s in self.scores
            ],
            "seconds": round(self.seconds, 1),
        }


@evaluator
def evaluate_fewshot(
    model: Model, task: FewShotTask, split: Split, decoding: Decoding, progress: Advance
) -> FewShotEvaluation:
    """Classify one query of each episode of a split."""
    device = next(model.parameters()).device
    sums: dict[int, dict[str, float]] = {}  # shots -> sums over its episodes
    shots, last = task.shots(split), torch.tensor([-1], device=device)

    def name(rows: Sequence[int]) -> tuple[int, dict[str, float]]:
        K = shots[rows[0] % len(shots)]
        batch = task.episodes(split, rows, K).to(device)
        with record_any(model) as trace:
            right = (model(batch).argmax(-1) == batch.answers).sum()
            looks = {path: weight_on_class(trace[path][0].rows(last), batch) for path in trace}
        found = {"episodes": len(rows), "right": right, "nearest": nearest(batch), **looks}
        return K, {measure: float(number) for measure, number in found.items()}

    for K, numbers in by_batch(task, split, name, batch=BATCH, progress=progress):
        total = sums.setdefault(K, dict.fromkeys(numbers, 0.0))
        for measure, number in numbers.items():
            total[measure] += number
    scores = tuple(_score(K, **sums[K]) for K in sorted(sums, key=shots.index))
    return FewShotEvaluation(split, task.settings.ways, scores)


def _score(K: int, *, episodes: float, right: float, nearest: float, **looks: float) -> ShotsScore:
    looked = {path: weight / episodes for path, weight in looks.items()}
    return ShotsScore(K, int(episodes), right / episodes, nearest / episodes, looked)


def weight_on_class(weights: Tensor, batch: EpisodeBatch) -> Tensor:
    """(B, …, T) weights of the queries -> () their sum over drawings of the queries' classes."""
    support = weights.reshape(len(weights), -1)[:, : batch.labels.shape[1]]
    return (support * (batch.labels == batch.answers[:, :1])).sum()


def nearest(batch: EpisodeBatch) -> Tensor:
    """() the number of queries whose label is that of the drawing with the nearest pixels."""
    support, query = batch.support.flatten(2).float(), batch.queries.flatten(2).float()
    best = torch.cdist(query, support).argmin(-1)  # (B, Q)
    return (batch.labels.gather(1, best) == batch.answers).sum()

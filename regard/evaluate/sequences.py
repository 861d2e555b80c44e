"""Evaluates models that answer in bits: cost per sequence, wrong bits, correct sequences, by length.

cost  = -log2 p(answer)                       mean over sequences, in bits; `optimum` is the best possible
wrong = bits on the wrong side of 1/2         share of the bits that count
whole = sequences without a wrong bit         share
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from regard.decode.base import Decoding
from regard.evaluate.base import Advance, Evaluation, MeasureTable, by_batch, evaluator
from regard.models.base import Model
from regard.tasks.base import Split
from regard.tasks.bits import BitTask, Shape, costs

BATCH = 64


@dataclass(frozen=True)
class ShapeScore:
    """The measurements for one shape of sequences."""

    shape: Shape
    sequences: int
    bits: int  # that count, per sequence
    cost: float  # bits per sequence
    optimum: float  # bits per sequence for the best possible predictor
    wrong: float  # share of bits
    whole: float  # share of sequences


@dataclass(frozen=True)
class SequenceEvaluation(Evaluation):
    """The measurements on a split, by shape; the first shape is the headline."""

    units: tuple[str, ...]
    shapes: tuple[ShapeScore, ...]

    def headline(self) -> tuple[str, float]:
        first = self.shapes[0]
        return f"bits per sequence at {self._name(first)}", first.cost

    def over_sizes(self) -> float:
        return sum(score.cost for score in self.shapes) / len(self.shapes)

    def measures(self) -> list[tuple[str, str]]:
        name, cost = self.headline()
        first = self.shapes[0]
        found = [(name, f"{cost:.3f}")]
        if first.optimum:
            found.append(("the best possible", f"{first.optimum:.3f}"))
        found.append((f"wrong bits at {self._name(first)}", f"{100 * first.wrong:.2f} %"))
        found.append((f"sequences without a wrong bit at {self._name(first)}", f"{100 * first.whole:.1f} %"))
        return found

    def tables(self) -> list[MeasureTable]:
        columns = (
            *self.units,
            "sequences",
            "bits per sequence",
            "optimum",
            "of bits",
            "wrong bits",
            "all right",
        )
        rows = [
            (
                *map(str, score.shape),
                str(score.sequences),
                f"{score.cost:.3f}",
                f"{score.optimum:.3f}",
                str(score.bits),
                f"{100 * score.wrong:.2f} %",
                f"{100 * score.whole:.1f} %",
            )
            for score in sorted(self.shapes, key=lambda score: score.shape)
        ]
        return [MeasureTable(columns, rows)]

    def summary(self) -> dict[str, Any]:
        name, cost = self.headline()
        return {
            "split": self.split,
            "metric": name,
            "value": cost,
            "units": list(self.units),
            "shapes": [asdict(score) | {"shape": list(score.shape)} for score in self.shapes],
            "seconds": round(self.seconds, 1),
        }

    def _name(self, score: ShapeScore) -> str:
        return ", ".join(f"{unit} {size}" for unit, size in zip(self.units, score.shape, strict=True))


@evaluator
def evaluate_sequences(
    model: Model, task: BitTask, split: Split, decoding: Decoding, progress: Advance
) -> SequenceEvaluation:
    """Run the model over a split. Answers are not fed back, so nothing is decoded."""
    device = next(model.parameters()).device
    sums: dict[tuple[Shape, int], torch.Tensor] = {}  # per shape and number of bits that count

    def measure(rows: Sequence[int]) -> tuple[tuple[Shape, int], torch.Tensor]:
        batch = task.batch(split, rows)
        best = task.optimum(batch).sum()
        batch = batch.to(device)
        logits = model(batch)
        wrong = ((logits > 0) != (batch.targets > 0.5)) & batch.counted[..., None]
        errors = wrong.flatten(1).sum(1)  # (B,)
        found = [len(rows), costs(logits, batch).sum(), best, errors.sum(), (errors == 0).sum()]
        total = torch.tensor([float(x) for x in found], dtype=torch.float64)
        bits = int(batch.counted[0].sum()) * batch.targets.shape[-1]
        return (task.shape(split, rows[0]), bits), total

    for key, total in by_batch(task, split, measure, batch=BATCH, progress=progress):
        sums[key] = sums.get(key, 0) + total
    scores = []
    for (shape, bits), total in sums.items():
        count, cost, best, errors, right = total.tolist()
        each = (cost / count, best / count, errors / (count * bits), right / count)
        scores.append(ShapeScore(shape, int(count), bits, *each))
    return SequenceEvaluation(split, task.units, tuple(scores))

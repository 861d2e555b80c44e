"""A language model, measured: perplexity, exp of the mean negative log-likelihood of a word.

perplexity = exp(-(1/N) Σ_t log p(w_t | words before))           end marks count as words
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decode.base import Decoding
from regard.evaluate.base import Advance, MeasureTable
from regard.evaluate.divided import divide
from regard.models.base import Model
from regard.tasks.base import Split
from regard.tasks.language import LanguageTask

BATCH = 1024  # words predicted at a time


@dataclass(frozen=True)
class LanguageEvaluation:
    """The negative log-likelihood of a text, in nats."""

    split: Split
    loss: float  # summed
    words: int

    @property
    def perplexity(self) -> float:
        """exp of the mean loss; infinite where that overflows."""
        mean = self.loss / self.words
        return math.exp(mean) if mean < 700 else math.inf

    def headline(self) -> tuple[str, float]:
        return "perplexity", self.perplexity

    def measures(self) -> list[tuple[str, str]]:
        return [
            ("perplexity per word", f"{self.perplexity:.2f}"),
            ("bits per word", f"{self.loss / self.words / math.log(2):.3f}"),
            ("words, end marks counted", str(self.words)),
        ]

    def tables(self) -> list[MeasureTable]:
        return []

    def summary(self) -> dict[str, Any]:
        return {
            "split": self.split,
            "perplexity": self.perplexity,
            "bits_per_word": self.loss / self.words / math.log(2),
            "words": self.words,
        }


def evaluate_language(
    model: Model,
    task: LanguageTask,
    split: Split = "test",
    *,
    decoding: Decoding | None = None,
    progress: Advance | None = None,
) -> LanguageEvaluation:
    """Predict every word of a split once, each with the task's context before its window."""
    device = next(model.parameters()).device

    def measure(rows: Sequence[int]) -> Tensor:
        with torch.no_grad():
            loss = task.loss(model, task.batch(split, rows).to(device))
        if progress is not None:
            progress(len(rows))
        return torch.stack([loss.total.double(), loss.count.double()]).cpu()

    sums = torch.zeros(2, dtype=torch.float64)
    for found in divide(task.evaluation_plan(split, batch=BATCH), measure):
        sums += found
    return LanguageEvaluation(split, float(sums[0]), int(sums[1]))

"""Evaluates a language model by perplexity: exp of the mean negative log-likelihood per word.

perplexity = exp(-(1/N) Σ_t log p(w_t | words before))           end marks count as words
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decode.base import Decoding
from regard.evaluate.base import Advance, Evaluation, by_batch, evaluator
from regard.models.base import Model
from regard.tasks.base import Split
from regard.tasks.language import LanguageTask

BATCH = 1024  # words predicted per batch


@dataclass(frozen=True)
class LanguageEvaluation(Evaluation):
    """The negative log-likelihood of a text, in nats."""

    loss: float  # summed
    words: int

    @property
    def perplexity(self) -> float:
        """exp of the mean loss; infinite on overflow."""
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

    def summary(self) -> dict[str, Any]:
        return {
            "split": self.split,
            "perplexity": self.perplexity,
            "bits_per_word": self.loss / self.words / math.log(2),
            "words": self.words,
        }


@evaluator
def evaluate_language(
    model: Model, task: LanguageTask, split: Split, decoding: Decoding, progress: Advance
) -> LanguageEvaluation:
    """Predict every word of a split once, each window with the task's context before it."""
    device = next(model.parameters()).device

    def measure(rows: Sequence[int]) -> Tensor:
        loss = task.loss(model, task.batch(split, rows).to(device))
        return torch.stack([loss.total.double(), loss.count.double()]).cpu()

    found = by_batch(task, split, measure, batch=BATCH, progress=progress)
    sums = sum(found, torch.zeros(2, dtype=torch.float64))
    return LanguageEvaluation(split, float(sums[0]), int(sums[1]))

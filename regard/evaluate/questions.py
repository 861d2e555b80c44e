"""Evaluates questions about stories: the error on each task, their mean, and the number of failed tasks.

The paper's column is "3 hop PE LS RN joint" of table 1 for 1,000 questions per task: trained on all twenty
tasks at once. For 10,000 it is the paper's best network, with d = 100 and a ReLU after each hop, trained on
each task separately, as quoted by Gulcehre and others.

Sukhbaatar, Szlam, Weston, Fergus. End-to-end memory networks. 2015. https://arxiv.org/abs/1503.08895
Gulcehre, Chandar, Cho, Bengio. Dynamic neural Turing machine with soft and hard addressing schemes. 2016.
https://arxiv.org/abs/1607.00036
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from regard.data.babi import NAMES
from regard.decode.base import Decoding
from regard.evaluate.base import Advance, Evaluation, MeasureTable, by_batch, evaluator
from regard.models.base import Model
from regard.tasks.babi import BabiTask
from regard.tasks.base import Split
from regard.tasks.questions import QuestionTask

FAILED = 5.0  # per cent of wrong answers above which a task counts as failed
BATCH = 256

# the paper's errors in per cent, by set and task
_ERRORS = (
    *(0.0, 11.4, 21.9, 13.4, 14.4, 2.8, 18.3, 9.3, 1.9, 6.5),
    *(0.3, 0.1, 0.2, 6.9, 0.0, 2.7, 40.4, 9.4, 88.0, 0.0),
)
_ERRORS_10K = (
    *(0.0, 0.3, 2.1, 0.0, 0.8, 0.1, 2.0, 0.9, 0.3, 0.0),
    *(0.1, 0.0, 0.0, 0.1, 0.0, 51.8, 18.6, 5.3, 2.3, 0.0),
)
PAPER = {"en": dict(enumerate(_ERRORS, 1)), "en-10k": dict(enumerate(_ERRORS_10K, 1))}


@dataclass(frozen=True)
class QuestionsEvaluation(Evaluation):
    """Wrong answers and all answers, by task."""

    wrong: Mapping[int, int]
    count: Mapping[int, int]
    paper: Mapping[int, float]  # error in per cent; empty if the paper has none

    def error(self, task: int) -> float:
        """The share of wrong answers on a task, in per cent."""
        return 100 * self.wrong[task] / self.count[task]

    @property
    def mean_error(self) -> float:
        """The unweighted mean over tasks."""
        return sum(map(self.error, self.count)) / len(self.count)

    @property
    def failed(self) -> list[int]:
        """The tasks with more than 5 % wrong answers."""
        return [task for task in self.count if self.error(task) > FAILED]

    def headline(self) -> tuple[str, float]:
        return "mean error", self.mean_error

    def measures(self) -> list[tuple[str, str]]:
        shown = [("mean error", f"{self.mean_error:.1f} %")]
        if len(self.count) > 1:
            shown.append((f"failed tasks (> {FAILED:g} %)", f"{len(self.failed)} of {len(self.count)}"))
        if set(self.count) <= set(self.paper):
            mean = sum(self.paper[task] for task in self.count) / len(self.count)
            shown.append(("mean error in the paper", f"{mean:.1f} %"))
        return [*shown, ("questions", str(sum(self.count.values())))]

    def tables(self) -> list[MeasureTable]:
        if len(self.count) < 2:
            return []
        return [MeasureTable(("task", "error %", "paper %"), [self._row(t) for t in self.count])]

    def _row(self, task: int) -> tuple[str, str, str]:
        paper = f"{self.paper[task]:.1f}" if task in self.paper else ""
        return f"{task} {NAMES[task - 1]}", f"{self.error(task):.1f}", paper

    def summary(self) -> dict[str, Any]:
        return {
            "split": self.split,
            "questions": sum(self.count.values()),
            "mean_error": self.mean_error,
            "failed": self.failed,
            "errors": {str(task): self.error(task) for task in self.count},
            "paper": {str(task): self.paper[task] for task in self.count if task in self.paper},
        }


@evaluator
def evaluate_questions(
    model: Model, task: QuestionTask, split: Split, decoding: Decoding, progress: Advance
) -> QuestionsEvaluation:
    """Answer every question of a split. An answer that training never saw is wrong whatever is said."""
    questions, device = task.questions(split), next(model.parameters()).device

    def answered(rows: Sequence[int]) -> list[tuple[int, bool]]:
        said = model(task.batch(split, rows).to(device))[:, 1:].argmax(-1) + 1  # null is not an answer
        words = [task.words.words[number] for number in said.tolist()]
        asked = [questions[row] for row in rows]
        return [(each.task, word != each.answer) for each, word in zip(asked, words, strict=True)]

    found = list(chain(*by_batch(task, split, answered, batch=BATCH, progress=progress)))
    count = dict(sorted(Counter(number for number, _ in found).items()))
    wrong = {number: sum(mistaken for each, mistaken in found if each == number) for number in count}
    paper = PAPER.get(task.settings.set, {}) if isinstance(task, BabiTask) else {}
    return QuestionsEvaluation(split, wrong, count, paper)

"""The common form of all evaluations: numbers for JSON, lines for a reader, one headline.

EVALUATORS maps tasks to evaluators, which are imported on demand.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from regard.decode.base import GREEDY, Decoding, evaluating
from regard.errors import ConfigError
from regard.evaluate.divided import divide
from regard.models.base import Model
from regard.tasks.base import Split, Task

Advance = Callable[[int], None]
"""Called with the number of examples finished since the last call."""


class MeasureTable(NamedTuple):
    """A table of strings for display; numeric columns are right-aligned."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Evaluation(ABC):
    """The measurements on one split."""

    split: Split
    seconds: float = field(default=0.0, kw_only=True)

    @abstractmethod
    def headline(self) -> tuple[str, float]:
        """The metric for comparing runs, and its value."""

    @abstractmethod
    def measures(self) -> list[tuple[str, str]]:
        """Name and value of each single number, as displayed, the headline first."""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """All numbers as plain values, for JSON."""

    def tables(self) -> list[MeasureTable]:
        """Further tables: by length, by task, with the paper's numbers."""
        return []

    def lines(self) -> list[str] | None:
        """One line of output for each example; None if the outputs are not lines."""
        return None

    def note(self) -> str:
        """How the numbers were computed, such as a signature."""
        return ""

    def over_sizes(self) -> float:
        """The headline; its mean over all sizes if it covers only the first of several."""
        return self.headline()[1]


Found = TypeVar("Found", bound=Evaluation)
Item = TypeVar("Item")


def evaluator(measure: Callable[[Any, Any, Split, Decoding, Advance], Found]) -> Callable[..., Found]:
    """Give `measure` the signature of `evaluate`; run it in evaluation mode, and time it."""

    @wraps(measure)
    def evaluate(
        model: Any,
        task: Any,
        split: Split = "test",
        *,
        decoding: Decoding = GREEDY,
        progress: Advance | None = None,
    ) -> Found:
        started = time.perf_counter()
        with evaluating(model):
            found = measure(model, task, split, decoding, progress or (lambda count: None))
        return replace(found, seconds=time.perf_counter() - started)

    return evaluate


def by_batch(
    task: Any, split: Split, compute: Callable[[Sequence[int]], Item], *, batch: int, progress: Advance
) -> list[Item]:
    """The results of `compute` for each batch of a split, in order; processes share the batches."""

    def told(rows: Sequence[int]) -> Item:
        found = compute(rows)
        progress(len(rows))
        return found

    return divide(task.evaluation_plan(split, batch=batch), told)


EVALUATORS = {  # by class name of the task or of a base class
    "TranslationTask": "regard.evaluate.translation:evaluate_translation",
    "QuestionTask": "regard.evaluate.questions:evaluate_questions",
    "LanguageTask": "regard.evaluate.language:evaluate_language",
    "SentenceTask": "regard.evaluate.language:evaluate_language",
    "PointingTask": "regard.evaluate.pointing:evaluate_pointing",
    "CaptionTask": "regard.evaluate.captions:evaluate_captions",
    "RecallTask": "regard.evaluate.recall:evaluate_recall",
    "EntailmentTask": "regard.evaluate.classification:evaluate_classification",
    "BitTask": "regard.evaluate.sequences:evaluate_sequences",
    "FewShotTask": "regard.evaluate.fewshot:evaluate_fewshot",
    "BanditTask": "regard.evaluate.acting:evaluate_bandits",
    "MDPTask": "regard.evaluate.acting:evaluate_processes",
    "PictureClassesTask": "regard.evaluate.classification:evaluate_classification",
    "PictureTask": "regard.evaluate.pictures:evaluate_pictures",
}


def of_task(table: Mapping[str, str], task: Task) -> Any:
    """The entry of a table of `module:name` paths for the task's class, or for its nearest base class."""
    for kind in type(task).__mro__:
        if kind.__name__ in table:
            module, _, name = table[kind.__name__].partition(":")
            return getattr(import_module(module), name)
    raise ConfigError(
        f"task: {type(task).__name__} has no evaluation or view; expected a task of `regard list task`. "
        "Add a function for it to regard.evaluate.base.EVALUATORS or regard.views.VIEWERS."
    )


def evaluate(
    model: Model,
    task: Task,
    split: Split = "test",
    *,
    decoding: Decoding = GREEDY,
    progress: Advance | None = None,
) -> Evaluation:
    """Evaluate a model on a split, with the evaluator of its task."""
    return of_task(EVALUATORS, task)(model, task, split, decoding=decoding, progress=progress)

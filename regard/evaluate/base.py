"""What every evaluation answers, whatever the task: numbers for JSON, lines for a reader, one headline.

A task names its evaluator as a path, `evaluator = "regard.evaluate.translation:evaluate_translation"`, so
that it can say how it is measured without importing what measures it.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol, runtime_checkable

from regard.decode.base import GREEDY, Decoding
from regard.models.base import Model
from regard.tasks.base import Split, Task

Advance = Callable[[int], None]
"""Told how many examples were finished since the last call."""


class MeasureTable(NamedTuple):
    """A table of strings, as it is shown; columns of numbers are set flush right."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Evaluation(Protocol):
    """What was measured on one split."""

    def headline(self) -> tuple[str, float]:
        """The metric by which two runs are compared, and its value."""
        ...

    def measures(self) -> list[tuple[str, str]]:
        """Name and value of each single number, as shown, the headline first."""
        ...

    def tables(self) -> list[MeasureTable]:
        """Further tables: by length, by task, beside the paper's."""
        ...

    def summary(self) -> dict[str, Any]:
        """All the numbers as plain values, for JSON."""
        ...


@runtime_checkable
class Listing(Protocol):
    """An evaluation that also has one line of output for each example."""

    def lines(self) -> list[str]: ...


@runtime_checkable
class Noted(Protocol):
    """An evaluation that says how its numbers were computed, for instance by a signature."""

    def note(self) -> str: ...


class Evaluator(Protocol):
    """The function that a task's `evaluator` names."""

    def __call__(
        self, model: Any, task: Any, split: Split, *, decoding: Decoding, progress: Advance | None
    ) -> Evaluation: ...


def load(path: str) -> Any:
    """The object that a path `module:name` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def evaluate(
    model: Model,
    task: Task,
    split: Split = "test",
    *,
    decoding: Decoding = GREEDY,
    progress: Advance | None = None,
) -> Evaluation:
    """Measure a model on a split, in the way of its task."""
    evaluator: Evaluator = load(task.evaluator)
    return evaluator(model, task, split, decoding=decoding, progress=progress)

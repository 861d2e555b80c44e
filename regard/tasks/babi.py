"""The bAbI tasks, one at a time or all at once.

    [task]
    name = "babi"
    tasks = "all"                # or "1,2,5"; a model that learns several at once is trained jointly
    set = "en"                   # 1,000 training questions a task; "en-10k" has 10,000
    data = "/data"               # the folder that holds babi/; empty: REGARD_DATA

One story in ten of the training file is kept for validation, with all its questions. The memory holds the
most recent sentences of a story. A task whose training file the set lacks (3 in some copies of en-10k) is
left out, with a warning. Questions of your own, in Python: `BabiTask.from_dataset`.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from regard.catalog import card
from regard.data.babi import TASKS, BabiSet, read_babi, read_files
from regard.data.questions import Question, cut_sentence, split_story
from regard.data.rows import Row, Rows, no_rows, require_dataset
from regard.errors import ConfigError, DataError
from regard.tasks.base import SPLITS, Split
from regard.tasks.questions import QuestionTask

VALID_EVERY = 10  # one training story in this many is for validation


@dataclass(frozen=True, kw_only=True)
class BabiSettings:
    """Which tasks, of which set, and how much of a story is remembered."""

    tasks: str | int = "all"  # or numbers, "1,2,5"
    set: BabiSet = "en"
    data: str = ""
    memory: int = 50  # sentences


@card(
    "task",
    "babi",
    title="bAbI",
    authors="Weston et al.",
    year=2015,
    link="https://arxiv.org/abs/1502.05698",
    sentence="Twenty kinds of question about short stories, learnt one at a time or together.",
)
class BabiTask(QuestionTask):
    """Questions of the bAbI tasks."""

    Settings = BabiSettings

    @classmethod
    def from_dataset(cls, dataset: Any, settings: BabiSettings) -> Self:
        """The task on questions in memory (regard/data/rows.py); the settings' set is "dataset".

        A row has `story`, a text or a list of sentences, `question`, and `answer`, a word.
        """
        require_dataset("babi", "set", settings.set)
        rows = Rows("babi", dataset)
        read = {split: [row_question(rows, row) for row in rows[split]] for split in SPLITS}
        return cls.learn(settings, read)

    @classmethod
    def read(cls, settings: BabiSettings, split: Split) -> Sequence[Question]:
        if settings.set == "dataset":
            raise no_rows("babi", "set")
        return [q for number in chosen_tasks(settings) for q in read_split(settings, number, split)]


def row_question(rows: Rows, row: Row) -> Question:
    """The question in a row."""
    story, question, answer = rows.cells(row, "story", "question", "answer")
    try:
        told = tuple(map(cut_sentence, split_story(story) if isinstance(story, str) else story))
    except (TypeError, AttributeError):
        raise DataError(
            f"babi: a row of the dataset has the story {story!r}; expected a text or a list of sentences."
        ) from None
    words = cut_sentence(str(answer))
    if len(words) != 1:
        raise DataError(f"babi: a row of the dataset has the answer {answer!r}; expected one word.")
    return Question(told, cut_sentence(str(question)), words[0])


def read_split(settings: BabiSettings, task: int, split: Split) -> list[Question]:
    """One task's questions of a split."""
    if split == "test":
        return read_babi(settings.set, task, "test", data=settings.data)
    held_out = VALID_EVERY - 1
    questions = read_babi(settings.set, task, "train", data=settings.data)
    return [q for q in questions if (q.origin % VALID_EVERY == held_out) == (split == "valid")]


def chosen_tasks(settings: BabiSettings) -> list[int]:
    """The task numbers in `tasks`; with "all", tasks without a training file are left out."""
    wanted = task_numbers(settings.tasks)
    files = read_files(settings.set, data=settings.data)
    missing = [task for task in wanted if (task, "train") not in files]
    if not missing:
        return wanted
    named = ", ".join(map(str, missing))
    if settings.tasks != "all":
        raise DataError(
            f"babi: the set {settings.set!r} has no training file of task {named}; choose others."
        )
    logging.getLogger("regard").warning(
        "babi: the set %r has no training file of task %s; it is left out.", settings.set, named
    )
    return [task for task in wanted if task not in missing]


def task_numbers(tasks: str | int) -> list[int]:
    """ "all" or "1,2,5" as numbers."""
    if tasks == "all":
        return list(TASKS)
    parts = [part.strip() for part in str(tasks).split(",")]
    if not all(part.isdigit() and int(part) in TASKS for part in parts):
        raise ConfigError(f"babi: `task.tasks` has {tasks!r}; expected 'all' or numbers of 1 to 20, '1,2,5'.")
    return sorted({int(part) for part in parts})

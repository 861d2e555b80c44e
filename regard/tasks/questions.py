"""Questions about stories as a task: batches of equal size, cross-entropy over the vocabulary."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Self

from torch import nn

from regard.data.batches import in_batches
from regard.data.questions import NULL, EncodedQuestions, Question, StoryBatch, all_words
from regard.data.wordlist import WordList
from regard.errors import check_sizes
from regard.tasks.base import Loss, Split, WordListTask, class_loss


class QuestionTask(WordListTask):
    """Base of all tasks on stories; a subclass provides the questions.

    A model is called with a `StoryBatch` and returns the scores (B, V) of every word as the answer.
    `train.batch` counts questions.
    """

    Settings: ClassVar[type[Any]]
    gives: ClassVar[str] = "stories with questions"
    unknown = NULL

    def __init__(self, settings: Any, words: WordList) -> None:
        super().__init__(settings, words)
        self._questions: dict[Split, Sequence[Question]] = {}
        self._encoded: dict[Split, EncodedQuestions] = {}

    @classmethod
    def create(cls, settings: Any) -> Self:
        """The task with the vocabulary of its training and validation questions."""
        return cls.learn(settings, {split: cls.read(settings, split) for split in ("train", "valid")})

    @classmethod
    def learn(cls, settings: Any, questions: Mapping[Split, Sequence[Question]]) -> Self:
        """The task on these questions, with the vocabulary of training and validation."""
        check_sizes("questions", settings, "memory")
        seen = [*questions["train"], *questions["valid"]]
        task = cls(settings, WordList.learn(all_words(seen), first=(NULL,), unknown=NULL))
        task._questions.update(questions)
        return task

    @classmethod
    def read(cls, settings: Any, split: Split) -> Sequence[Question]:
        """Read or make the questions of a split."""
        raise NotImplementedError(f"{cls.__name__} defines no read(settings, split).")

    def questions(self, split: Split) -> Sequence[Question]:
        """The questions of a split."""
        if split not in self._questions:
            self._questions[split] = self.read(self.settings, split)
        return self._questions[split]

    def encoded(self, split: Split) -> EncodedQuestions:
        """The questions of a split as tensors."""
        if split not in self._encoded:
            self._encoded[split] = self.encode(self.questions(split))
        return self._encoded[split]

    def encode(self, questions: Sequence[Question]) -> EncodedQuestions:
        """Any questions as tensors."""
        return EncodedQuestions(questions, self.words, memory=self.settings.memory)

    def sizes(self) -> dict[str, int]:
        return {"vocab": len(self.words), "memory": self.settings.memory}

    def plan(self, epoch: int, *, seed: int, batch: int) -> list[list[int]]:
        """The questions in random order; an incomplete last batch is dropped unless it is the only one."""
        order = list(range(len(self.questions("train"))))
        Random(f"{seed} {epoch}").shuffle(order)
        return in_batches(order, batch, full=True)

    def evaluation_plan(self, split: Split, *, batch: int) -> list[list[int]]:
        return in_batches(range(len(self.questions(split))), batch)

    def batch(self, split: Split, rows: Sequence[int]) -> StoryBatch:
        return self.encoded(split).batch(rows)

    def loss(self, model: nn.Module, batch: StoryBatch) -> Loss:
        """Cross-entropy of the answers, summed."""
        return class_loss(model(batch), batch.answer)

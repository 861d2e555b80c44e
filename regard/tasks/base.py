"""What a task promises: examples in three splits, batches of them, a loss that can be summed.

A training run walks through *plans*. A plan is one epoch as a list of batches, each batch a list of example
numbers; it depends on the seed and the epoch alone, so that a run can go on at any step without replaying
what came before. (Where a task waits for the loss, it also depends on a number that the checkpoint keeps.)
Tasks with generated data use the example numbers as seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.catalog import card
from regard.data.batches import in_batches, plan_by_rows
from regard.data.wordlist import UNKNOWN, WordList

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
NUMBERS = 2**40  # where in the stream of drawn examples an epoch may begin

own_card = partial(card, "task", authors="regard", year=2026)  # of a task that no paper introduced


@dataclass(frozen=True, eq=False)
class Loss:
    """A loss that adds up over batches, accumulation steps and processes: `total / count` is the mean."""

    total: Tensor  # () differentiable
    count: Tensor  # () number of predicted units (tokens), not differentiable


class Scored(NamedTuple):
    """What a model's forward returns where it wants more to be minimised than its task asks for."""

    scores: Tensor  # (B, T, V) of each target word given those before it
    extra: Tensor  # () summed over the batch, as the task's loss is; 0 outside training


class Task(Protocol):
    """What to learn: data, batches, loss and metric. A task never imports a model.

    `Settings` is a frozen dataclass: its fields are the keys of a recipe's `[task]` table. How a model of the
    task is measured and shown stands above the tasks, in `evaluate/base.py` and `views/__init__.py`.
    """

    Settings: ClassVar[type[Any]]
    gives: ClassVar[str]  # the kind of its examples; a model that fits `reads` it

    @classmethod
    def create(cls, settings: Any) -> Self:
        """The task with its data, from nothing but its Settings."""

    @classmethod
    def restore(cls, settings: Any, folder: Path) -> Self:
        """The task as it was when `save` wrote this folder."""

    def sizes(self) -> Mapping[str, int]:
        """What a model's Config takes from the data: `source_vocab`, `target_vocab`, …"""

    def plan(self, epoch: int, *, seed: int, batch: int) -> Sequence[Sequence[int]]:
        """The training batches of one epoch, each of about `batch` units, as example numbers."""

    def batch(self, split: Split, rows: Sequence[int]) -> Any:
        """The examples of these numbers as tensors (something with `.to(device)`)."""

    def evaluation_plan(self, split: Split, *, batch: int) -> Sequence[Sequence[int]]:
        """Every example of a split once, in batches."""

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        """Call the model once and sum the loss."""

    def save(self, folder: Path) -> None:
        """Write what a user of the model needs beside the weights (tokenizers, settings)."""


class SettledTask:
    """A task whose settings say all: its examples are drawn or read again, and nothing is saved."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @classmethod
    def create(cls, settings: Any) -> Self:
        return cls(settings)

    @classmethod
    def restore(cls, settings: Any, folder: Path) -> Self:
        return cls(settings)

    def save(self, folder: Path) -> None:
        """Nothing."""

    def count(self, split: Split) -> int:
        """Examples of a split."""
        return int(getattr(self.settings, split))

    def plan(self, epoch: int, *, seed: int, batch: int) -> Sequence[list[int]]:
        """The units of `batch` are examples, all of one length."""
        return plan_by_rows([0] * self.count("train"), rows=batch, epoch=epoch, seed=seed)

    def evaluation_plan(self, split: Split, *, batch: int) -> list[list[int]]:
        return in_batches(range(self.count(split)), batch)


class DrawnTask(SettledTask):
    """A task that draws its examples and has as many as are wanted: an example's number says all about it.

    Its remainder is its *kind*; the number itself seeds its content. A training batch has one kind, drawn
    for the batch, and fresh examples; so nothing is seen twice, and a plan depends on the seed and the epoch
    alone.
    """

    def kinds(self, split: Split) -> int:
        """How many kinds of example a split has."""
        return 1

    def allowed(self, epoch: int) -> int:
        """How many of the kinds of training an epoch draws from, the first ones: all.

        `epoch` is its number, or, where plans wait for the loss, that of the learnt epochs before it.
        """
        return self.kinds("train")

    def plan(self, epoch: int, *, seed: int, batch: int, learnt: int | None = None) -> list[list[int]]:
        """About `train` fresh examples, `batch` of one kind at a time."""
        allowed = self.allowed(epoch if learnt is None else learnt)
        kinds, chance = self.kinds("train"), Random(f"{seed} {epoch}")
        first = chance.randrange(NUMBERS)
        return [
            [(first + number) * kinds + kind for number in range(start, start + batch)]
            for start in range(0, max(self.settings.train // batch, 1) * batch, batch)
            for kind in (chance.randrange(allowed),)
        ]

    def evaluation_plan(self, split: Split, *, batch: int) -> list[list[int]]:
        """`test` examples of every kind, or `valid` of all kinds together; one kind a batch."""
        each, kinds = getattr(self.settings, split), self.kinds(split)
        if split != "test":
            each = -(-each // kinds)
        return [
            [number * kinds + kind for number in range(start, min(start + batch, each))]
            for kind in range(kinds)
            for start in range(0, each, batch)
        ]


class WordListTask:
    """A task that keeps its words and nothing else."""

    unknown: ClassVar[str] = UNKNOWN  # what stands for a word that is not listed

    def __init__(self, settings: Any, words: WordList) -> None:
        self.settings, self.words = settings, words

    @classmethod
    def restore(cls, settings: Any, folder: Path) -> Self:
        return cls(settings, WordList.load(folder / "words.json", unknown=cls.unknown))

    def save(self, folder: Path) -> None:
        self.words.save(folder / "words.json")


def class_loss(scores: Tensor, labels: Tensor) -> Loss:
    """(B, classes) scores, (B,) labels -> cross-entropy, summed."""
    return Loss(F.cross_entropy(scores.float(), labels, reduction="sum"), torch.ones_like(labels).sum())


@runtime_checkable
class Waiting(Protocol):
    """A task whose plans wait for the loss: they depend on the seed, the epoch and how many were learnt."""

    def learnt(self, loss: float) -> bool:
        """Whether an epoch with this training loss counts."""

    def plan(
        self, epoch: int, *, seed: int, batch: int, learnt: int | None = None
    ) -> Sequence[Sequence[int]]:
        """The batches of an epoch, of those before which so many were learnt; None: all of them."""


@runtime_checkable
class Filling(Protocol):
    """A task that knows something of a model's first weights: word vectors that were given."""

    def fill(self, model: nn.Module) -> None:
        """Called once on a new model, before it is trained."""

"""A tiny model and a tiny task: symbols of sentences of different lengths, each to be renamed."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.catalog import Row
from regard.errors import DataError
from regard.models.base import Model
from regard.tasks.base import Loss, Split
from regard.train.config import RunConfig, TrainConfig


@dataclass(frozen=True)
class TinyConfig:
    vocab: int
    hidden: int = 8
    dropout: float = 0.0
    kind: Literal["plain", "tied"] = "plain"
    sizes: tuple[int, ...] = (1, 2)
    bias: bool = True
    note: str | None = None
    unused: bool = True


class TinyModel(Model):
    Config = TinyConfig

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.hidden, config.vocab, bias=config.bias)
        if config.kind == "tied":
            self.output.weight = self.embedding.weight
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        if config.unused:
            self.unused = nn.Parameter(torch.ones(3))  # no gradient ever reaches it

    def forward(self, source: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
        return self.output(self.dropout(self.embedding(source)))


@dataclass(frozen=True)
class TinyBatch:
    source: Tensor  # (B, T)
    target: Tensor  # (B, T), -100 where padded
    poison: bool = False

    def to(self, device: torch.device | str) -> "TinyBatch":
        return replace(self, source=self.source.to(device), target=self.target.to(device))


@dataclass(frozen=True)
class TinySettings:
    examples: int = 40
    vocab: int = 7
    target: str = "fr"
    poison: tuple[int, ...] = ()  # training examples whose loss is not a number


class TinyTask:
    Settings = TinySettings

    def __init__(self, settings: TinySettings) -> None:
        self.settings = settings
        self.batches = 0  # training batches made; tests count them

    @classmethod
    def create(cls, settings: TinySettings) -> "TinyTask":
        return cls(settings)

    @classmethod
    def restore(cls, settings: TinySettings, folder: Path) -> "TinyTask":
        stored = json.loads((folder / "tiny.json").read_text())
        if stored["vocab"] != settings.vocab:
            raise DataError("tiny: the saved vocabulary is another one.")
        return cls(settings)

    def save(self, folder: Path) -> None:
        (folder / "tiny.json").write_text(json.dumps(asdict(self.settings)))

    def sizes(self) -> Mapping[str, int]:
        return {"vocab": self.settings.vocab, "not_for_this_model": 3}

    def plan(self, epoch: int, *, seed: int, batch: int) -> Sequence[Sequence[int]]:
        rows = list(range(self.settings.examples))
        random.Random(1000 * seed + epoch).shuffle(rows)
        plan: list[list[int]] = [[]]
        for row in rows:
            if sum(length(r) for r in plan[-1]) + length(row) > batch and plan[-1]:
                plan.append([])
            plan[-1].append(row)
        return plan

    def evaluation_plan(self, split: Split, *, batch: int) -> Sequence[Sequence[int]]:
        return [[0, 1, 2], [3]]

    def batch(self, split: Split, rows: Sequence[int]) -> TinyBatch:
        self.batches += split == "train"
        width = max(length(row) for row in rows)
        source = torch.zeros(len(rows), width, dtype=torch.int64)
        target = torch.full((len(rows), width), -100)
        for index, row in enumerate(rows):
            symbols = [(row * 3 + place) % self.settings.vocab for place in range(length(row))]
            source[index, : len(symbols)] = torch.tensor(symbols)
            target[index, : len(symbols)] = torch.tensor([(3 * s + 1) % self.settings.vocab for s in symbols])
        return TinyBatch(
            source, target, split == "train" and any(row in self.settings.poison for row in rows)
        )

    def loss(self, model: nn.Module, batch: TinyBatch) -> Loss:
        scores = model(batch.source).flatten(0, 1)
        total = F.cross_entropy(scores, batch.target.flatten(), ignore_index=-100, reduction="sum")
        if batch.poison:
            total = total * float("nan")
        return Loss(total, (batch.target != -100).sum())


def length(row: int) -> int:
    return 1 + row * row % 5  # 1, 2 and 5: means of means would show


ROWS = (
    Row("tiny", "model", "train_support:TinyModel", "Tiny", "Nobody", 2014, "", "A model for tests."),
    Row("tiny-task", "task", "train_support:TinyTask", "Tiny", "Nobody", 2014, "", "A task for tests."),
)


def make_config(
    train: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    task: Mapping[str, Any] | None = None,
) -> RunConfig:
    given = {"steps": 12, "batch": 9, "lr": 0.05, "evaluate_every": 4, "checkpoint_every": 3, "log_every": 2}
    settings = TrainConfig(**(given | {"threads": 1} | dict(train or {})))
    return RunConfig("tiny", dict(model or {}), "tiny-task", dict(task or {}), settings)


def build(config: RunConfig) -> tuple[TinyModel, TinyTask]:
    """As `regard.train.run.create`, for scripts whose catalogue lacks the tiny rows."""
    task = TinyTask.create(TinySettings(**config.task_settings))
    torch.manual_seed(config.train.seed)
    return TinyModel(TinyConfig(vocab=task.settings.vocab, **config.model_settings)), task

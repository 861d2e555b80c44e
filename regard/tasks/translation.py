"""Sentence pairs as a task: batches by token budget, cross-entropy, raw text in and out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches import PairBatch, pair_batch, plan_by_tokens, plan_in_order
from regard.data.tokens import Tokenizer
from regard.tasks.base import Loss, Split

Links = tuple[tuple[int, int], ...]  # (source piece, target piece), from 0


@dataclass(frozen=True, slots=True)
class Example:
    """One sentence pair as raw text; `links` join pieces of the two sides where they are known."""

    source: str
    target: str
    links: Links | None = None


class TranslationTask:
    """What every task on sentence pairs shares; a subclass says where the examples come from."""

    Settings: ClassVar[type[Any]]
    evaluator: ClassVar[str] = "regard.evaluate.translation:evaluate_translation"
    viewer: ClassVar[str] = "regard.cli.views.alignment:view"
    languages: tuple[str, str]

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        self.source, self.target = source, target
        self._examples: dict[Split, Sequence[Example]] = {}
        self._encoded: dict[Split, list[tuple[list[int], list[int]]]] = {}

    @classmethod
    def create(cls, settings: Any) -> Self:
        """The task with its tokenizers, learnt from its training sentences."""
        raise NotImplementedError(f"{cls.__name__} defines no create(settings).")

    @classmethod
    def restore(cls, settings: Any, folder: Path) -> Self:
        """The task with the tokenizers that `save` wrote."""
        raise NotImplementedError(f"{cls.__name__} defines no restore(settings, folder).")

    def read(self, split: Split) -> Sequence[Example]:
        """The examples of a split, from wherever they come; called once a split."""
        raise NotImplementedError(f"{type(self).__name__} defines no read(split).")

    def examples(self, split: Split) -> Sequence[Example]:
        """The examples of a split."""
        if split not in self._examples:
            self._examples[split] = self.read(split)
        return self._examples[split]

    def encoded(self, split: Split) -> list[tuple[list[int], list[int]]]:
        """The examples of a split as numbers, without eos."""
        if split not in self._encoded:
            self._encoded[split] = [
                (self.source.encode(example.source), self.target.encode(example.target))
                for example in self.examples(split)
            ]
        return self._encoded[split]

    def lengths(self, split: Split) -> list[tuple[int, int]]:
        """(source, target) numbers of pieces, eos counted."""
        return [(len(source) + 1, len(target) + 1) for source, target in self.encoded(split)]

    def sizes(self) -> dict[str, int]:
        return {"source_vocab": len(self.source), "target_vocab": len(self.target)}

    def plan(self, epoch: int, *, seed: int, batch: int) -> list[list[int]]:
        return plan_by_tokens(self.lengths("train"), budget=batch, epoch=epoch, seed=seed)

    def evaluation_plan(self, split: Split, *, batch: int) -> list[list[int]]:
        return plan_in_order(self.lengths(split), budget=batch)

    def batch(self, split: Split, rows: Sequence[int]) -> PairBatch:
        pairs = [self.encoded(split)[row] for row in rows]
        return pair_batch([source for source, _ in pairs], [target for _, target in pairs])

    def loss(self, model: nn.Module, batch: PairBatch) -> Loss:
        """Cross-entropy, summed over the target words and their eos."""
        return cross_entropy(model(batch), batch)

    def save(self, folder: Path) -> None:
        self.source.save(folder / "source.tokenizer.json")
        self.target.save(folder / "target.tokenizer.json")

    @staticmethod
    def load_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
        """What `save` wrote."""
        return (
            Tokenizer.load(folder / "source.tokenizer.json"),
            Tokenizer.load(folder / "target.tokenizer.json"),
        )


def cross_entropy(scores: Tensor, batch: PairBatch) -> Loss:
    """(B, T, V) scores against the batch's targets; padding counts nothing."""
    t = torch.arange(batch.target.shape[1], device=batch.target.device)
    target = batch.target.masked_fill(t >= batch.target_lengths[:, None], -100)
    total = F.cross_entropy(
        scores.flatten(0, 1).float(), target.flatten(), ignore_index=-100, reduction="sum"
    )
    return Loss(total, batch.target_lengths.sum())

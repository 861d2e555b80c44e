"""Sentence pairs as a task: batches by token budget, cross-entropy, raw text in and out."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches import PairBatch, Plan, plan_by_tokens, plan_in_order
from regard.data.encoded import EncodedPairs, Pair, collect
from regard.data.parallel import Example
from regard.data.tokens import Tokenizer
from regard.errors import ConfigError
from regard.kernels.training.cross_entropy import cross_entropy_of_two
from regard.tasks.base import Loss, Split

Owners = list[tuple[int, ...]]  # for each piece the words it is part of
CHUNK = 1024  # texts encoded at once
IGNORED = -100  # target at padding


class TranslationTask:
    """Base of all tasks on sentence pairs; a subclass provides the examples."""

    Settings: ClassVar[type[Any]]
    gives: ClassVar[str] = "sentence pairs"
    takes_half: ClassVar[bool] = True  # the loss is computed in float32 whatever the dtype of the scores
    languages: tuple[str, str]
    r_drop: float = 0.0  # weight of the divergence between two passes with different dropout

    def __init__(self, settings: Any, source: Tokenizer, target: Tokenizer) -> None:
        """`settings.smoothing` is the share of each target's mass that training spreads over all words."""
        smoothing = settings.smoothing
        if not 0.0 <= smoothing < 1.0:
            raise ConfigError(f"task: `smoothing` has {smoothing}; expected 0 or more, and less than 1.")
        shared = source is target
        self.source = Tokenizer.of(source)
        self.target = self.source if shared else Tokenizer.of(target)
        self.settings, self.smoothing = settings, smoothing
        self._examples: dict[Split, Sequence[Example]] = {}
        self._encoded: dict[Split, EncodedPairs] = {}

    @classmethod
    def restore(cls, settings: Any, folder: Path) -> Self:
        return cls(settings, *cls.load_tokenizers(folder))

    def read(self, split: Split) -> Sequence[Example]:
        """Read or make the examples of a split; called once per split."""
        raise NotImplementedError(f"{type(self).__name__} defines no read(split).")

    def examples(self, split: Split) -> Sequence[Example]:
        """The examples of a split."""
        if split not in self._examples:
            self._examples[split] = self.read(split)
        return self._examples[split]

    def encode(self, split: Split) -> Iterable[Pair]:
        """The examples of a split as lists of ids; called once per split."""
        return encode_examples(self.examples(split), self.source, self.target)

    def encoded(self, split: Split) -> EncodedPairs:
        """The examples of a split as ids, without eos."""
        if split not in self._encoded:
            self._encoded[split] = collect(self.encode(split), sizes=(len(self.source), len(self.target)))
        return self._encoded[split]

    def lengths(self, split: Split) -> Tensor:
        """(N, 2) source and target lengths in pieces, with eos."""
        return self.encoded(split).lengths()

    def owners(self, example: Example) -> tuple[Owners, Owners]:
        """For each piece of both sides the words it is part of, or itself if the links join pieces."""
        if example.words is None:
            sides = (self.source.encode(example.source), self.target.encode(example.target))
            return [(n,) for n in range(len(sides[0]))], [(n,) for n in range(len(sides[1]))]
        return self.source.encode_words(example.words[0])[1], self.target.encode_words(example.words[1])[1]

    def sizes(self) -> dict[str, int]:
        return {"source_vocab": len(self.source), "target_vocab": len(self.target)}

    def plan(self, epoch: int, *, seed: int, batch: int) -> Plan:
        return plan_by_tokens(self.lengths("train"), budget=batch, epoch=epoch, seed=seed)

    def evaluation_plan(self, split: Split, *, batch: int) -> Plan:
        return plan_in_order(self.lengths(split), budget=batch)

    def batch(self, split: Split, rows: Sequence[int]) -> PairBatch:
        return self.encoded(split).batch(rows)

    def loss(self, model: nn.Module, batch: PairBatch) -> Loss:
        """Cross-entropy, summed over the target words and eos; smoothed only in training."""
        if not model.training:
            return cross_entropy(model(batch), batch)
        if self.r_drop:
            return consistent(model, batch, smoothing=self.smoothing, weight=self.r_drop)
        return cross_entropy(model(batch), batch, smoothing=self.smoothing)

    def save(self, folder: Path) -> None:
        if self.source is self.target:
            self.source.save(folder / "tokenizer.json")
            return
        self.source.save(folder / "source.tokenizer.json")
        self.target.save(folder / "target.tokenizer.json")

    @staticmethod
    def load_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
        """Read what `save` wrote; the same tokenizer twice if both sides share it."""
        if (folder / "tokenizer.json").exists():
            shared = Tokenizer.load(folder / "tokenizer.json")
            return shared, shared
        return (
            Tokenizer.load(folder / "source.tokenizer.json"),
            Tokenizer.load(folder / "target.tokenizer.json"),
        )


def encode_examples(examples: Iterable[Example], source: Tokenizer, target: Tokenizer) -> Iterator[Pair]:
    """The ids of both sides, many texts at once; given words are not split again."""
    remaining = iter(examples)
    while chunk := list(islice(remaining, CHUNK)):
        sources = source.encode_all([example.source for example in chunk])
        targets = target.encode_all([example.target for example in chunk])
        for example, left, right in zip(chunk, sources, targets, strict=True):
            if example.words is None:
                yield left, right
            else:
                yield source.encode_words(example.words[0])[0], target.encode_words(example.words[1])[0]


def cross_entropy(scores: Tensor, batch: PairBatch, *, smoothing: float = 0.0) -> Loss:
    """(B, T, V) scores against the batch's targets; padding is ignored.

    With smoothing ε the target's distribution is (1 - ε) on the word and ε / V on every word of the
    vocabulary, itself included (Szegedy et al. 2015, section 7).
    """
    total = F.cross_entropy(
        scores.flatten(0, 1).float(),
        _words(batch).flatten(),
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=smoothing,
    )
    return Loss(total, batch.target_lengths.sum())


def consistent(model: nn.Module, batch: PairBatch, *, smoothing: float, weight: float) -> Loss:
    """Cross-entropy of two passes with different dropout, and the divergence between them.

        ½ (CE₁ + CE₂) + α/2 · ½ (KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁))

    Half of the paper's sum, so that the loss stays that of one pass when the two agree.

    Liang, Wu, Li, Wang, Meng, Qin, Chen, Zhang, Liu. R-Drop: regularized dropout for neural networks. 2021.
    https://arxiv.org/abs/2106.14448
    """
    scores = model(batch.repeated(2)).flatten(0, 1)  # (2 B T, V)
    total = cross_entropy_of_two(scores, _words(batch).flatten(), smoothing=smoothing, weight=weight)
    return Loss(total, batch.target_lengths.sum())


def _words(batch: PairBatch) -> Tensor:
    """(B, T) the target, with IGNORED at padding."""
    t = torch.arange(batch.target.shape[1], device=batch.target.device)
    return batch.target.masked_fill(t >= batch.target_lengths[:, None], IGNORED)

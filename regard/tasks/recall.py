"""Key-value recall: pairs are read one by one, then a key is shown again and its value is asked for.

    step       1        2       …    P        P + 1
    symbols    k₁ v₁    k₂ v₂   …    k_P v_P   k_j blank        label: v_j

The keys of a sequence are distinct, so the answer is in one place only, and where a model looks can be
checked. A recurrent state must hold all pairs at once; a tape keeps each where it was written. Training
sequences have `shortest` to `longest` pairs; the test has every number in `asked`, larger ones too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import torch
from torch import nn

from regard.data.batches import in_batches
from regard.data.tensor_batch import LabelledBatch
from regard.errors import ConfigError, DataError, check_range, check_sizes
from regard.tasks.base import Loss, SettledTask, Split, class_loss, own_card


@dataclass(frozen=True, kw_only=True)
class RecallSettings:
    """How many keys and values there are, and how many pairs a sequence has."""

    keys: int = 20
    values: int = 10
    shortest: int = 2
    longest: int = 12
    asked: tuple[int, ...] = (2, 4, 8, 12, 16, 20)  # pairs of the test sequences
    train: int = 20_000  # sequences an epoch, new ones each time
    valid: int = 512
    test: int = 500  # sequences for each number of pairs
    seed: int = 1

    def __post_init__(self) -> None:
        check_sizes("key-value", self, "values", least=2)
        check_range("key-value", self, "shortest", "longest")
        if not self.asked or min(self.asked) < 1:
            raise ConfigError(
                f"key-value: `asked` has {self.asked}; expected numbers of pairs, 1 or more each."
            )
        most = max(self.longest, *self.asked)
        if most > self.keys:
            raise ConfigError(
                f"key-value: `keys` has {self.keys} and sequences have up to {most} pairs; expected as many "
                "keys or more, since those of a sequence are distinct."
            )


class Recall(NamedTuple):
    """One sequence: its pairs, and the index of the queried pair."""

    pairs: tuple[tuple[int, int], ...]
    place: int


@own_card(
    "key-value",
    title="Key-value recall",
    sentence="Read pairs one by one; then a key is shown again, and the network must give its value.",
)
class RecallTask(SettledTask):
    """Recall the value that was paired with a key."""

    Settings = RecallSettings
    gives = "labelled sequences"
    settings: RecallSettings

    def sizes(self) -> dict[str, int]:
        return {"vocab": self.settings.keys + self.settings.values + 1, "classes": self.settings.values}

    @property
    def blank(self) -> int:
        """The symbol in place of the queried value."""
        return self.settings.keys + self.settings.values

    def plan(self, epoch: int, *, seed: int, batch: int) -> list[list[int]]:
        """New sequences in every epoch: their numbers are their seeds. `batch` counts sequences."""
        first = (seed * 1_000_003 + epoch) * self.settings.train
        return in_batches(range(first, first + self.settings.train), batch, full=True)

    def evaluation_plan(self, split: Split, *, batch: int) -> list[list[int]]:
        """Test sequences are grouped by their number of pairs, which never varies within a batch."""
        if split != "test":
            return super().evaluation_plan(split, batch=batch)
        each = self.settings.test
        starts = range(0, each * len(self.settings.asked), each)
        return [rows for start in starts for rows in in_batches(range(start, start + each), batch)]

    def example(self, split: Split, number: int) -> Recall:
        """Sequence `number` of a split."""
        settings = self.settings
        chance = Random(f"{settings.seed} {split} {number}")
        if split == "test":
            pairs = settings.asked[number // settings.test]
        else:
            pairs = chance.randint(settings.shortest, settings.longest)
        keys = chance.sample(range(settings.keys), pairs)
        values = chance.choices(range(settings.values), k=pairs)
        return Recall(tuple(zip(keys, values, strict=True)), chance.randrange(pairs))

    def batch(self, split: Split, rows: Sequence[int]) -> LabelledBatch:
        """Training batches are all padded to the longest possible sequence, so they have one shape."""
        examples = [self.example(split, row) for row in rows]
        longest = max((len(example.pairs) for example in examples), default=0)
        return self.tensors(
            examples, steps=1 + max(longest, self.settings.longest if split == "train" else 0)
        )

    def tensors(self, examples: Sequence[Recall], *, steps: int) -> LabelledBatch:
        """The sequences, padded to `steps`."""
        rows = [
            [*((k, self.settings.keys + v) for k, v in pairs), (pairs[place][0], self.blank)]
            for pairs, place in examples
        ]
        padded = [[*row, *[(0, self.blank)] * (steps - len(row))] for row in rows]
        return LabelledBatch(
            torch.tensor(padded, dtype=torch.long).reshape(len(rows), steps, 2),
            torch.tensor([len(row) for row in rows], dtype=torch.long),
            torch.tensor([pairs[place][1] for pairs, place in examples], dtype=torch.long),
        )

    def read(self, text: str) -> Recall:
        """A user's sequence: pairs `key=value`, then the queried key, as in "3=7 5=1 3"."""
        settings = self.settings
        found = re.fullmatch(r"(?:\d+=\d+ )+(\d+)", " ".join(text.split()))
        pairs = tuple((int(k), int(v)) for k, v in re.findall(r"(\d+)=(\d+)", text))
        keys = [k for k, _ in pairs]
        right = len(set(keys)) == len(keys) and all(
            k < settings.keys and v < settings.values for k, v in pairs
        )
        if not found or not right or int(found[1]) not in keys:
            raise DataError(
                f"key-value: {text!r} is not a sequence; expected pairs key=value with distinct keys below "
                f"{settings.keys} and values below {settings.values}, then one of the keys: 3=7 5=1 3"
            )
        return Recall(pairs, keys.index(int(found[1])))

    def loss(self, model: nn.Module, batch: LabelledBatch) -> Loss:
        """Cross-entropy of the value, summed over sequences."""
        return class_loss(model(batch), batch.labels)

"""What a model promises: a forward pass for training, and one step at a time for decoding."""

from collections.abc import Hashable
from typing import Any, ClassVar, Protocol, TypeVar

import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches import PairBatch
from regard.data.tokens import BOS

State = TypeVar("State")


class Model(nn.Module):
    """A complete system, built from one frozen dataclass.

    `Config` is the dataclass; `aligner` is the path of the attention that aligns source and target, as
    `record(model)` names it, or None for a model without attention. `steps` are the methods that do one step
    of a recurrence in pure tensors: what `train.compile` compiles.
    """

    Config: ClassVar[type[Any]]
    steps: ClassVar[tuple[str, ...]] = ()
    aligner: str | None = None
    config: Any

    def at_step(self, step: int, steps: int) -> Hashable:
        """Called before update number `step`, from 1, of `steps`, for a model that changes while it learns.

        What it changes must follow from these two numbers alone, so that a run can go on at any step. It
        returns the phase it is in, if there are several: a step captured in one is not replayed in another.
        """
        return None


class Translating(Model):
    """A model that turns one sequence into another, one step at a time: a Model that is a StepDecoder."""

    def start(self, batch: PairBatch) -> Any:
        """Encode the source; the state before the first target token."""
        raise NotImplementedError(f"{type(self).__name__} defines no start(batch).")

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """(B,) last tokens, state -> (B, V) log-probabilities of the next token, next state."""
        raise NotImplementedError(f"{type(self).__name__} defines no step(tokens, state).")

    def select(self, state: Any, rows: Tensor) -> Any:
        """Keep (R,) rows of the state, in this order; rows may repeat."""
        raise NotImplementedError(f"{type(self).__name__} defines no select(state, rows).")


class StepDecoder(Protocol[State]):
    """What greedy, beam and sampled decoding need of a model, and all they know of it."""

    def start(self, batch: PairBatch) -> State:
        """Encode the source; the state before the first target token."""
        ...

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(B,) last tokens, state -> (B, V) log-probabilities of the next token, next state."""
        ...

    def select(self, state: State, rows: Tensor) -> State:
        """Keep (R,) rows of the state, in this order; rows may repeat."""
        ...


def teacher_inputs(batch: PairBatch) -> Tensor:
    """(B, T) what the decoder reads in training: the target one step late, behind bos."""
    return F.pad(batch.target[:, :-1], (1, 0), value=BOS)

"""What a model promises: a forward pass for training, and one step at a time for decoding."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches import PairBatch
from regard.data.tokens import BOS

State = TypeVar("State")


@dataclass(frozen=True)
class Player:
    """One of several parts of a model that learn in turn, each by a loss of its own, as adversaries do."""

    name: str  # the submodule whose parameters learn in its turn; `forward` takes it as `player`
    rate: float = 1.0  # its learning rate, as a multiple of `train.lr`
    turns: int = 1  # how often it learns in one update, each time from a new batch


class Model(nn.Module):
    """A complete system, built from one frozen dataclass.

    `Config` is the dataclass; `aligner` is the path of the attention that aligns source and target, as
    `record(model)` names it, or None for a model without attention. `steps` are the methods that do one step
    of a recurrence in pure tensors: what `train.compile` compiles, unless `compilable` says otherwise. Those
    of a model that is `varied` meet another shape with every batch, and are compiled once for all shapes.

    `players` are the parts that learn in turn, in this order; a model without any learns as a whole. Where
    there are some, `forward` takes the keyword `player`, the name of the one whose loss is wanted.
    """

    Config: ClassVar[type[Any]]
    reads: ClassVar[
        tuple[str, ...]
    ] = ()  # the kinds of examples it learns from: a task that fits `gives` one
    steps: ClassVar[tuple[str, ...]] = ()
    varied: ClassVar[bool] = False
    aligner: str | None = None
    players: tuple[Player, ...] = ()
    config: Any

    def at_step(self, step: int, steps: int) -> Hashable:
        """Called before update number `step`, from 1, of `steps`, for a model that changes while it learns.

        What it changes must follow from these two numbers alone, so that a run can go on at any step. It
        returns the phase it is in, if there are several: a step captured in one is not replayed in another.
        """
        return None

    def compilable(self) -> Iterable[tuple[nn.Module, str]]:
        """What `train.compile` compiles: methods, by their owner and their name."""
        return [(self, name) for name in self.steps]

    def after_step(self, step: int) -> None:
        """Called after update number `step`, for what follows the weights: an average of them."""


class Translating(Model):
    """A model that turns one sequence into another, one step at a time: a Model that is a StepDecoder.

    It is `capturable` if `start` and `step` never wait for the device, so that they can become CUDA graphs.
    """

    capturable: ClassVar[bool] = True

    def start(self, batch: PairBatch) -> Any:
        """Encode the source; the state before the first target token."""
        raise NotImplementedError(f"{type(self).__name__} defines no start(batch).")

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """(B,) last tokens, state -> (B, V) log-probabilities of the next token, next state."""
        raise NotImplementedError(f"{type(self).__name__} defines no step(tokens, state).")

    def select(self, state: Any, rows: Tensor) -> Any:
        """Keep (R,) rows of the state, in this order; rows may repeat."""
        raise NotImplementedError(f"{type(self).__name__} defines no select(state, rows).")

    def reorder(self, state: Any, rows: Tensor, copies: int) -> Any:
        """As `select`, where every sentence stays: rows come in its order, `copies` for each.

        What belongs to a sentence can stay where it is, and nothing waits for the device.
        """
        return self.select(state, rows)


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

"""Captures the forward and backward pass of a training step in a CUDA graph for each batch shape.

A step of a recurrent model launches thousands of small kernels, and launching them takes Python longer than
running them takes the GPU. A CUDA graph launches them at once. It fixes the shapes, so each batch shape has
its own graph; batches that can, round their shape up (`rounded`), so that there are few. A replay adds to the
gradients and gives the same numbers as the plain step, because the same kernels run.

A step can be captured if nothing in it waits for the device: no `.item()`, no shape that depends on values.
"""

from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.tasks.base import Loss

WARM_UP = 2  # plain steps on a side stream before the capture, in which libraries initialize


@runtime_checkable
class Rounding(Protocol):
    """A batch that can pad itself to one of a few shapes."""

    def rounded(self) -> Any: ...


class _Recording(NamedTuple):
    graph: torch.cuda.CUDAGraph
    batch: Any  # the memory that the graph reads
    loss: Loss  # the memory that the graph writes


class CapturedStep:
    """Forward and backward of a batch: (batch) -> Loss; gradients are accumulated.

    `step` takes a batch, and also the player if players learn in turn.
    """

    def __init__(self, step: Callable[..., Loss], model: nn.Module) -> None:
        self._step = step
        self._parameters, self._buffers = list(model.parameters()), list(model.buffers())
        self._recordings: dict[Hashable, _Recording] = {}
        self._pool: Any = None

    def __call__(self, batch: Any, phase: Hashable = None, player: Hashable = None) -> Loss:
        """Replay the graph for this shape, phase of the model and player; the first call captures it.

        The batch must be on the device. The next call overwrites the loss.
        """
        key = (phase, player, _shape(batch))
        recording = self._recordings.get(key)
        if recording is None:
            recording = self._recordings[key] = self._record(batch, player)
        for name, tensor in _tensors(batch).items():
            getattr(recording.batch, name).copy_(tensor)
        recording.graph.replay()
        return recording.loss

    def _record(self, batch: Any, player: Hashable) -> _Recording:
        step = self._step if player is None else partial(self._step, player=player)
        kept = replace(batch, **{name: tensor.clone() for name, tensor in _tensors(batch).items()})
        before = [None if p.grad is None else p.grad.clone() for p in self._parameters]
        buffers = [buffer.clone() for buffer in self._buffers]
        random = torch.cuda.get_rng_state()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                step(kept)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.set_rng_state(random)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            loss = step(kept)
            loss = Loss(loss.total.detach(), loss.count)
        self._pool = graph.pool()
        # undo the effects of the warm-up in place: the graph reads and writes this memory
        for parameter, gradient in zip(self._parameters, before, strict=True):
            if parameter.grad is not None:
                parameter.grad.zero_() if gradient is None else parameter.grad.copy_(gradient)
        for buffer, value in zip(self._buffers, buffers, strict=True):
            buffer.copy_(value)
        return _Recording(graph, kept, loss)

    def clear_gradients(self) -> None:
        """Zero the gradients in place: the graphs write to their memory."""
        torch._foreach_zero_([p.grad for p in self._parameters if p.grad is not None] or [torch.zeros(0)])


def _tensors(batch: Any) -> dict[str, Tensor]:
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def _shape(batch: Any) -> Hashable:
    """The key of a graph: shapes and dtypes of tensors, values of everything else."""
    if not is_dataclass(batch) or isinstance(batch, type):
        kind = type(batch).__name__
        raise ConfigError(f"train: 'train.capture' is on and a batch is a {kind}; expected a dataclass.")
    return tuple(
        (tuple(value.shape), value.dtype)
        if isinstance(value := getattr(batch, field.name), Tensor)
        else value
        for field in fields(batch)
    )

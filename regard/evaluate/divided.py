"""Work divided among the processes that a launcher started, and its results put together in all of them.

    with processes_together():      every process is here, and computes a share
        evaluate(…)

Every process gets the numbers of one process, to the last bit: batches are the same, and are added in their
order. Where an evaluation draws at random (policies, pictures), each process computes all of it.

Outside of the block everything is this process's own: a script may evaluate in its main process alone. Texts
and counts are exchanged in a group of their own, apart from gradients.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as group

Item = TypeVar("Item")
Result = TypeVar("Result")
_together: ContextVar[group.ProcessGroup | None] = ContextVar("together", default=None)
PATIENCE = timedelta(minutes=30)


@contextmanager
def processes_together(patience: timedelta = PATIENCE) -> Iterator[None]:
    """Inside the block the processes of a launcher divide their work, each on a GPU of its own.

    `patience`: how long one waits for the results of another.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    started = not group.is_initialized()
    if started:
        group.init_process_group("gloo")
    token = _together.set(group.new_group(backend="gloo", timeout=patience))
    try:
        yield
    finally:
        _together.reset(token)
        if started:
            group.destroy_process_group()


def divide(items: Sequence[Item], compute: Callable[[Item], Result]) -> list[Result]:
    """What `compute` makes of each item, in their order; every process computes its share and gets all."""
    return together([compute(item) for item in share(items)])


def share(items: Sequence[Item]) -> list[Item]:
    """What this process does: of P processes, every P-th item."""
    return list(items if _together.get() is None else items[group.get_rank() :: group.get_world_size()])


def together(own: Sequence[Item]) -> list[Item]:
    """The results of all items in their order, from those of each process's share; all must call this."""
    if _together.get() is None:
        return list(own)
    parts: list[Any] = [None] * group.get_world_size()
    group.all_gather_object(parts, list(own), group=_together.get())
    found: list[Any] = [None] * sum(map(len, parts))
    for rank, part in enumerate(parts):
        found[rank :: len(parts)] = part
    return found

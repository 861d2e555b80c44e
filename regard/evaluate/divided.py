"""Divides work among launched processes and gathers the results in all of them.

    with processes_together():      all processes are here, and each computes a share
        evaluate(…)

Every process gets the numbers of a single process, to the last bit: the batches are the same and are added in
the same order. Evaluations with random draws (policies, pictures) run completely in each process.

Outside the block a process works alone: a script may evaluate in its main process only. Texts and counts are
exchanged in a separate process group, apart from gradients.
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
    """Inside the block the launched processes divide their work, each on its own GPU.

    `patience`: how long a process waits for the results of another.
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
    """Apply `compute` to each item, in order; every process computes its share and gets all results."""
    return together([compute(item) for item in share(items)])


def share(items: Sequence[Item]) -> list[Item]:
    """This process's share: every P-th item, for P processes."""
    return list(items if _together.get() is None else items[group.get_rank() :: group.get_world_size()])


def together(own: Sequence[Item]) -> list[Item]:
    """The results for all items in order, from each process's share; all processes must call this."""
    if _together.get() is None:
        return list(own)
    parts: list[Any] = [None] * group.get_world_size()
    group.all_gather_object(parts, list(own), group=_together.get())
    found: list[Any] = [None] * sum(map(len, parts))
    for rank, part in enumerate(parts):
        found[rank :: len(parts)] = part
    return found

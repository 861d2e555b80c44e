"""The endless walk through the epochs' plans: a place in it is two numbers, so a run can go on anywhere."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise

import torch

from regard.data.batches import Plan
from regard.errors import DataError
from regard.tasks.base import Task, Waiting


@dataclass
class Stream:
    """The training batches of one process, in the order that all processes share.

    A batch of the plan is dealt out to the processes row by row. A batch with fewer rows than processes would
    leave one without work and the others waiting for it: such rows join a neighbouring batch.
    """

    task: Task
    _: KW_ONLY
    seed: int
    batch: int
    processes: int
    process: int
    epoch: int = 0
    position: int = 0
    learnt: int = 0

    def __post_init__(self) -> None:
        self._plan = self._plan_epoch()

    @property
    def waits(self) -> bool:
        """Whether the next batch depends on the loss of those before it."""
        return isinstance(self.task, Waiting) and self.position >= len(self._plan)

    def next(self, loss: float = math.nan) -> list[int]:
        """This process's rows of the next batch; `loss` is that of the epoch's updates so far."""
        if self.position >= len(self._plan):
            self.learnt += isinstance(self.task, Waiting) and self.task.learnt(loss)
            self.epoch, self.position = self.epoch + 1, 0
            self._plan = self._plan_epoch()
        rows = self._plan[self.position]
        self.position += 1
        return list(rows[self.process :: self.processes])

    def _plan_epoch(self) -> Sequence[Sequence[int]]:
        how = {"seed": self.seed, "batch": self.batch, "processes": self.processes, "learnt": self.learnt}
        return plan_epoch(self.task, self.epoch, **how)


def plan_epoch(
    task: Task, epoch: int, *, seed: int, batch: int, processes: int, learnt: int = 0
) -> Sequence[Sequence[int]]:
    """The batches of an epoch that so many processes share."""
    # `batch` is per process; the plan holds what all of them do together
    how = {"seed": seed, "batch": batch * processes}
    plan = task.plan(epoch, **how, learnt=learnt) if isinstance(task, Waiting) else task.plan(epoch, **how)
    joined = join_small(plan, processes) if processes > 1 else plan
    if not joined:
        raise DataError(
            f"{type(task).__name__}: `plan` has fewer than {processes} examples; expected one per process."
        )
    return joined


def moved_position(
    task: Task, *, seed: int, batch: int, epoch: int, position: int, were: int, processes: int
) -> int:
    """Where an epoch goes on with another number of processes: as large a share of its batches is done.

    Another number of processes has other batches: a few examples may come twice in this epoch, or not at all.
    """
    before, now = (
        len(plan_epoch(task, epoch, seed=seed, batch=batch, processes=n)) for n in (were, processes)
    )
    return -(-position * now // before)


def join_small(plan: Sequence[Sequence[int]], least: int) -> Sequence[Sequence[int]]:
    """The plan with every batch of fewer than `least` rows joined to the one before it, or to the next.

    Nothing of a Plan is copied: only where a joined batch begins is remembered.
    """
    counts = plan.starts.diff() if isinstance(plan, Plan) else torch.tensor([len(rows) for rows in plan])
    if (counts >= least).all():
        return plan
    begins: list[int] = []
    begin = waiting = 0  # the first batch of those that wait, and their rows
    for batch, count in enumerate(counts.tolist()):
        waiting += count
        if count < least and begins:
            begin, waiting = batch + 1, 0
        elif waiting >= least:
            begins.append(begin)
            begin, waiting = batch + 1, 0
    ends = torch.tensor([*begins, len(counts)])
    if isinstance(plan, Plan):
        return Plan(plan.rows, plan.starts[ends])
    return [[row for rows in plan[first:last] for row in rows] for first, last in pairwise(ends.tolist())]

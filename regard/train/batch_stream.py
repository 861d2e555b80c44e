"""The endless walk through the epochs' plans: a place in it is two numbers, so a run can go on anywhere."""

from collections.abc import Sequence

from regard.errors import DataError
from regard.tasks.base import Task


class Stream:
    """The training batches of one process, in the order that all processes share.

    A batch of the plan is dealt out to the processes row by row. A batch with fewer rows than processes would
    leave one without work and the others waiting for it: such rows join a neighbouring batch.
    """

    def __init__(
        self,
        task: Task,
        *,
        seed: int,
        batch: int,
        processes: int,
        process: int,
        epoch: int = 0,
        position: int = 0,
    ) -> None:
        self.task = task
        self.seed, self.batch = seed, batch
        self.processes, self.process = processes, process
        self.epoch, self.position = epoch, position
        self._plan = self._plan_epoch()

    def next(self) -> list[int]:
        """This process's rows of the next batch."""
        if self.position >= len(self._plan):
            self.epoch, self.position = self.epoch + 1, 0
            self._plan = self._plan_epoch()
        rows = self._plan[self.position]
        self.position += 1
        return list(rows[self.process :: self.processes])

    def _plan_epoch(self) -> Sequence[Sequence[int]]:
        # `batch` is per process; the plan holds what all of them do together
        plan = self.task.plan(self.epoch, seed=self.seed, batch=self.batch * self.processes)
        # one process takes every batch whole, and a plan of millions of rows stays in its arrays
        joined = join_small(plan, self.processes) if self.processes > 1 else plan
        if not joined:
            name = type(self.task).__name__
            raise DataError(
                f"{name}: `plan` has fewer than {self.processes} examples; expected one per process."
            )
        return joined


def join_small(plan: Sequence[Sequence[int]], least: int) -> list[list[int]]:
    """The plan with every batch of fewer than `least` rows joined to the one before it, or to the next."""
    joined: list[list[int]] = []
    waiting: list[int] = []
    for rows in plan:
        waiting = [*waiting, *rows]
        if len(rows) < least and joined:
            joined[-1] += waiting
            waiting = []
        elif len(waiting) >= least:
            joined.append(waiting)
            waiting = []
    return joined

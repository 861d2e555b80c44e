"""One queue and one thread per model: waiting requests are computed in one batch.

Threads, not processes: systems are thread-safe, share their weights, and PyTorch releases the GIL while it
computes, so nothing is copied between processes. Inputs are bounded, so no request runs for long. A batch
whose clients have all disconnected is cancelled between two steps (regard/decode/cancel.py). A thread that
dies is replaced, and so is one that hangs for twice the time limit of a request. The dead thread's requests
are retried in smaller batches, finally one by one, so a request that kills threads fails alone. If the whole
process dies, its supervisor (systemd, a container) restarts it.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from traceback import walk_tb
from typing import Any

from regard.decode.cancel import Cancelled, cancellable
from regard.errors import RegardError
from regard.serve.limits import Pace
from regard.serve.metrics import Metrics
from regard.serve.problems import Problem, failed, invalid, stopping

log = logging.getLogger("regard.serve")

Compute = Callable[[Hashable, Sequence[Any]], Sequence[Any]]  # (key, items) -> one answer per item


@dataclass(eq=False)
class Job:
    """A request waiting for its answer."""

    key: Hashable  # jobs with equal keys are batched
    item: Any
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    size: int = 1  # how much of a batch it takes up
    most: int | None = None  # the largest batch for a retry, after its thread died

    @property
    def left(self) -> bool:
        """Whether nobody is waiting any more: the client disconnected, or timed out."""
        return self.future.cancelled()

    def answer(self, result: Any) -> None:
        """Hand a result or an exception to the waiting task, if it still waits."""

        def settle() -> None:
            if not self.future.done():
                if isinstance(result, BaseException):
                    self.future.set_exception(result)
                else:
                    self.future.set_result(result)

        try:
            self.loop.call_soon_threadsafe(settle)
        except RuntimeError:  # the loop is closed: nobody is waiting
            return


class Worker:
    """A model's queue, and the thread that processes it."""

    def __init__(self, name: str, compute: Compute, pace: Pace, metrics: Metrics) -> None:
        self.name, self.pace = name, pace
        self._compute, self._metrics = compute, metrics
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._running: list[Job] = []
        self._since = 0.0  # when the current batch started
        self._generation = 0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start a thread, also to replace one that died or hangs."""
        with self._changed:
            self._generation += 1
            number = self._generation
            self._thread = threading.Thread(
                target=self._main, args=(number,), name=f"{self.name}-{number}", daemon=True
            )
            self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    async def submit(self, key: Hashable, item: Any, size: int = 1) -> Any:
        """The answer to one item, or an exception (`Problem`). Cancelling this drops the job."""
        job = self._enter(key, item, size)
        try:
            return await asyncio.wait_for(job.future, self.pace.seconds)
        except TimeoutError:
            self._replace_hung()
            late = f"There was no answer within {self.pace.seconds:g} seconds; send a smaller request."
            raise Problem(504, "timeout", late) from None
        finally:
            if not job.future.done():
                job.future.cancel()
            self._leave(job)

    def _enter(self, key: Hashable, item: Any, size: int) -> Job:
        loop = asyncio.get_running_loop()
        with self._changed:
            if self._stopping:
                raise stopping()
            if len(self._jobs) >= self.pace.waiting:
                full = f"{len(self._jobs)} requests are already waiting for this model; try again later."
                raise Problem(429, "queue_full", full, {"Retry-After": "1"})
            if self._thread is None:
                self.start()
            job = Job(key, item, loop.create_future(), loop, size)
            self._jobs.append(job)
            self._metrics.queue(self.name, len(self._jobs))
            self._changed.notify()
        return job

    def _leave(self, job: Job) -> None:
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
                self._metrics.queue(self.name, len(self._jobs))

    def stop(self, seconds: float) -> bool:
        """Finish the queue and accept nothing new; whether it finished in time."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        end = time.monotonic() + seconds
        # a dying thread starts its successor first
        while (thread := self._thread) and thread.is_alive() and (left := end - time.monotonic()) > 0:
            thread.join(left)
        return thread is None or not thread.is_alive()

    def _replace_hung(self) -> None:
        """Abandon a thread that has been on one batch for too long; its clients got 504 already."""
        with self._changed:
            if self._running and time.monotonic() - self._since > 2 * self.pace.seconds:
                log.error("a worker hangs and is replaced", extra={"model": self.name})
                self._metrics.replaced(self.name)
                self._running = []
                self.start()

    def _main(self, number: int) -> None:
        try:
            while (batch := self._collect(number)) is not None:
                self._run(number, batch)
        except BaseException as error:  # also SystemExit and MemoryError: the thread dies, the model does not
            log.error(
                "a worker died and is replaced", extra={"model": self.name, "error": type(error).__name__}
            )
            self._metrics.replaced(self.name)
            with self._changed:
                if number == self._generation:
                    self._retry()
                    self.start()

    def _retry(self) -> None:
        """Put a dead thread's jobs back at the front of the queue, except one that already ran alone."""
        for job in reversed(self._running):
            if job.most == 1:
                job.answer(
                    failed("The worker died each time it computed this request. It will not be retried.")
                )
            else:
                job.most = max(1, len(self._running) // 8)
                self._jobs.appendleft(job)
        self._running = []

    def _collect(self, number: int) -> list[Job] | None:
        """The next jobs with equal keys, waiting briefly for more to arrive; None when stopped."""
        with self._changed:
            while not self._jobs:
                if self._stopping or number != self._generation:
                    return None
                self._changed.wait()
            end = time.monotonic() + self.pace.longest_linger
            count = 0
            while count != len(self._jobs) < self.pace.batch and not self._stopping:
                count = len(self._jobs)
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(self.pace.linger, left))
            if number != self._generation:
                return None
            waiting = [job for job in self._jobs if not job.left]
            same = [job for job in waiting if job.key == waiting[0].key]
            batch = _fitting(same[: same[0].most] if same else [], self.pace.batch)
            taken = set(map(id, batch))
            self._jobs = deque(job for job in waiting if id(job) not in taken)
            self._running, self._since = batch, time.monotonic()
            self._metrics.queue(self.name, len(self._jobs))
            return batch

    def _run(self, number: int, batch: list[Job]) -> None:
        if not batch:
            return
        began = time.monotonic()
        answers: Sequence[Any] = ()
        with suppress(Cancelled), cancellable(lambda: all(job.left for job in batch)):
            answers = self._answers(batch[0].key, [job.item for job in batch])
        with self._changed:
            if number != self._generation:
                return
            for job, answer in zip(batch, answers, strict=bool(answers)):
                job.answer(answer)
            self._running = []
        if not answers:
            self._metrics.cancelled(self.name)
            return
        self._metrics.batch(self.name, len(batch), time.monotonic() - began)

    def _answers(self, key: Hashable, items: list[Any]) -> Sequence[Any]:
        """One answer per item; a failing batch is split, so that an item fails alone."""
        try:
            answers = self._compute(key, items)
            if len(answers) != len(items):
                raise RuntimeError("not as many answers as items")
            return answers
        except Exception as error:
            if half := len(items) // 2:
                return [*self._answers(key, items[:half]), *self._answers(key, items[half:])]
            if isinstance(error, Problem):
                return [error]
            if isinstance(error, RegardError):
                return [invalid(str(error))]
            log.error(
                "a request failed",
                extra={"model": self.name, "error": type(error).__name__, "trace": _places(error)},
            )
            return [failed()]


def _fitting(jobs: list[Job], most: int) -> list[Job]:
    """The first jobs that fit into a batch; the first is taken whatever its size."""
    sizes = accumulate(job.size for job in jobs)
    return [
        job for number, (job, size) in enumerate(zip(jobs, sizes, strict=True)) if not number or size <= most
    ]


def _places(error: BaseException) -> list[str]:
    """The stack of an error without its message, which may contain user input."""
    stack = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
    return [f"{code.co_filename.rpartition('regard/')[2]}:{line} {code.co_name}" for code, line in stack[-8:]]

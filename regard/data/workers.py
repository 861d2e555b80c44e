"""Jobs spread over processes on this machine, with the results in the order of the jobs.

A worker is `python -m regard.data.workers`: it reads a function and then jobs from its standard input, and
writes a result for each. It exits at the end of its input, so also when its parent is killed.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from typing import Any

from regard.errors import ConfigError, DataError

VARIABLE = "REGARD_PROCESSES"
AHEAD = 2  # jobs queued per process: keeps all of them busy and bounds memory
# each library reads its own at start-up; `train.threads` reaches only PyTorch
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


def count_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_processes() -> int:
    """REGARD_PROCESSES, else one per core that this process may use."""
    given = os.environ.get(VARIABLE, "")
    if not given:
        return count_cores()
    if not given.isdecimal() or int(given) < 1:
        raise ConfigError(f"{VARIABLE} has {given!r}; expected a number of processes, 1 or more.")
    return int(given)


def spread(function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]], *, processes: int) -> Iterator[Any]:
    """`function(*job)` for each job; both must be picklable. With one process, runs in this one."""
    if processes == 1:
        yield from (function(*job) for job in jobs)
        return
    with ExitStack() as stack:
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for _ in range(processes):
            worker = _Worker(function)
            stack.callback(worker.stop)
            idle.put(worker)
        pool = ThreadPoolExecutor(processes)  # one thread waits for each process
        stack.callback(pool.shutdown, cancel_futures=True)
        waiting: deque[Future[Any]] = deque()
        for job in jobs:
            waiting.append(pool.submit(_ask, idle, job))
            if len(waiting) >= AHEAD * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _ask(idle: "SimpleQueue[_Worker]", job: tuple[Any, ...]) -> Any:
    worker = idle.get()
    try:
        return worker.ask(job)
    finally:
        idle.put(worker)


class _Worker:
    """A worker process."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "regard.data.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | dict.fromkeys(THREADS, "1"),
        )
        self._function: Callable[..., Any] | None = function  # to be sent with the first job

    def ask(self, job: tuple[Any, ...]) -> Any:
        """The result of a job; its exceptions are raised here."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            if self._function is not None:
                pickle.dump(self._function, self._process.stdin)
                self._function = None
            pickle.dump(job, self._process.stdin)
            self._process.stdin.flush()
            result, error = pickle.load(self._process.stdout)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError) as broken:
            raise DataError(
                f"process {self._process.pid}, which prepared text, was killed, as when memory runs out; "
                "expected it to finish. Start again: what is finished is kept."
            ) from broken
        if error is not None:
            raise error
        return result

    def stop(self) -> None:
        self._process.kill()
        with suppress(OSError):
            self._process.communicate()


def _serve() -> None:
    """Main loop of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    jobs, results = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keep prints out of the results
    with suppress(EOFError, BrokenPipeError):
        function = pickle.load(jobs)
        while True:
            job = pickle.load(jobs)
            answer: tuple[Any, Exception | None]
            try:
                answer = (function(*job), None)
            except Exception as error:
                answer = (None, error)
            pickle.dump(answer, results)
            results.flush()


if __name__ == "__main__":
    _serve()

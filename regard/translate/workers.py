"""Translates in several processes, one per core or GPU; answers come in the order of the windows.

Each worker is a process with two pipes (`regard.translate.worker`), and a thread here waits for it. If a
worker is killed, its pipe closes, and a new one gets the same lines. If this process is killed, its workers
see their pipes close and exit.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from regard.data.workers import THREADS, count_cores
from regard.errors import DataError
from regard.translate.answers import Answer, LineTranslator, Options
from regard.translate.windows import Window, ahead

COMMAND = [sys.executable, "-m", "regard.translate.worker"]
ATTEMPTS = 3  # workers that may die on the same lines
AHEAD = 2  # windows per worker: one in progress, one ready

AnyWindow = TypeVar("AnyWindow", bound=Window)
Translate = Callable[[Iterable[AnyWindow]], Iterator[tuple[AnyWindow, list[Answer]]]]


@contextmanager
def translating(options: Options, processes: int = 1) -> "Iterator[Translate[Any]]":
    """A function from windows to (window, answers) pairs, in the same order."""
    if processes == 1:
        translate = LineTranslator(options)
        yield lambda windows: ((window, translate(window.lines)) for window in windows)
        return
    workers = Workers(options, processes)
    try:
        yield workers.map
    finally:
        workers.close()


class Workers:
    """A pool of processes with the same options."""

    def __init__(self, options: Options, processes: int) -> None:
        threads = max(1, count_cores() // processes)
        self._all = [Worker(options, number, threads) for number in range(processes)]
        self._free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._all:
            self._free.put(worker)
        self._waiting = ThreadPoolExecutor(processes)

    def map(self, windows: Iterable[AnyWindow]) -> Iterator[tuple[AnyWindow, list[Answer]]]:
        """Each window with its answers, in order; reads only slightly ahead."""
        given = ((window, self._waiting.submit(self._translate, window)) for window in windows)
        for pair in ahead(given, AHEAD * len(self._all)):
            assert pair is not None
            yield pair[0], pair[1].result()

    def _translate(self, window: Window) -> list[Answer]:
        worker = self._free.get()
        try:
            return worker.translate(window)
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """Kill all processes, whatever they are doing."""
        for worker in self._all:
            worker.kill()
        self._waiting.shutdown(cancel_futures=True)  # its threads know that their workers are gone
        for worker in self._all:
            worker.end()


@dataclass
class Worker:
    """One process, started by its first window."""

    options: Options
    number: int
    threads: int  # per library, unless OMP_NUM_THREADS is set
    process: subprocess.Popen[bytes] | None = None
    closed: bool = False

    def translate(self, window: Window) -> list[Answer]:
        """Translate a window; a worker that dies is replaced."""
        for _ in range(ATTEMPTS):
            try:
                answer = self._ask(window.lines)
            except (EOFError, OSError, pickle.UnpicklingError):
                status = self.end()
                if self.closed:
                    raise
                continue
            if isinstance(answer, Exception):
                raise answer
            return answer
        last = window.first + len(window.lines) - 1
        raise DataError(
            f"translate: {ATTEMPTS} processes ended over lines {window.first} to {last}, the last with "
            f"status {status}, as when memory runs out; expected fewer --processes or a smaller --beam."
        )

    def _ask(self, lines: list[str]) -> list[Answer] | Exception:
        if self.closed:
            raise EOFError
        process = self.process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump(lines, process.stdin)
        process.stdin.flush()
        found: list[Answer] | Exception = pickle.load(process.stdout)
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        limits = {} if "OMP_NUM_THREADS" in os.environ else dict.fromkeys(THREADS, str(self.threads))
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | limits,
            start_new_session=True,  # Ctrl-C is for the parent
        )
        assert self.process.stdin is not None
        pickle.dump((self.options, self.number), self.process.stdin)
        return self.process

    def end(self) -> int | None:
        """Kill the process and close its pipes; returns its exit status."""
        process, self.process = self.process, None
        if process is None:
            return None
        process.kill()
        process.communicate()
        return process.returncode

    def kill(self) -> None:
        """Kill the process permanently; a thread that waits for it gets an error."""
        self.closed = True
        if self.process is not None:
            self.process.kill()

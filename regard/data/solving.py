"""Answers to many point sets, solved in the background while training uses them.

A set is a function of its number, so it can be solved at any time. The first batch solves its own sets while
worker processes go through all of them and write a file of answers per part, which later batches read. The
parts are in regard's cache until all are there; then they are joined into one file, which later runs map. So
training starts at once, and the batches are the same in every run.
"""

import logging
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from regard import storage
from regard.data.points import PointSets, Spread
from regard.errors import DataError

IN_PROCESS = 50_000  # up to this many sets are solved at once in this process
PART = 2048  # sets per file
LOOK = 1.0  # seconds between checks for new files
NICE = 10  # workers yield to the training process
_VERSION = 4  # of sets and answers; bump it when either changes, to invalidate older files
_log = logging.getLogger(__name__)


def solved(sets: PointSets, count: int, *, folder: str = "", processes: int = 0) -> "Tensor | Solving":
    """(count, M), padded with -1: the answers to examples 0 … count - 1, solved ahead by worker processes.

    There are `processes` of them, one per core if 0. Their answers are stored in `folder`, or in regard's
    cache.
    """
    if count <= IN_PROCESS:
        return sets.answers(torch.arange(count))
    home = Path(folder) if folder else storage.cache_folder() / "points"
    spread = "" if sets.spread == "uniform" else f"-{sets.spread}"
    kind = f"{sets.question}-{sets.shortest}-{sets.longest}{spread}"
    path = home / f"{kind}-{sets.key.replace(' ', '-')}-{count}-v{_VERSION}.pt"
    if path.exists():
        return cast(Tensor, torch.load(path, mmap=True))
    return Solving(sets, count, path, processes or os.cpu_count() or 1)


class Solving:
    """Answers solved on demand, unless a worker has solved them already."""

    def __init__(self, sets: PointSets, count: int, path: Path, processes: int) -> None:
        self.sets, self.count, self.path = sets, count, path
        self.folder = path.with_suffix(".parts")
        self.folder.mkdir(parents=True, exist_ok=True)
        storage.remove_left_over(self.folder)
        self._parts: dict[int, Tensor] = {}  # read so far, mapped
        self._whole: Tensor | None = None
        self._looked = -LOOK
        self._began = time.perf_counter()
        self._workers = self._start(processes) if os.environ.get("LOCAL_RANK", "0") == "0" else []
        self._end = weakref.finalize(self, _stop, self._workers)

    def __getitem__(self, examples: Tensor) -> Tensor:
        if self._whole is None:
            self._look()
        if self._whole is not None:
            return self._whole[examples]
        found = torch.full((len(examples), self.sets.width), -1)
        parts = examples // PART
        missing = torch.ones_like(examples, dtype=torch.bool)
        for number in self._parts.keys() & parts.tolist():
            here = parts == number
            found[here] = self._parts[number][examples[here] - number * PART].long()
            missing ^= here
        if missing.any():
            found[missing] = self.sets.answers(examples[missing])
        return found

    def _start(self, processes: int) -> list[subprocess.Popen[bytes]]:
        sets = self.sets
        print(f"{sets.question}: solving {self.count:,} point sets while training", file=sys.stderr)
        own = [sets.question, sets.key, str(sets.shortest), str(sets.longest), sets.spread]
        own += [str(self.folder), str(self.count)]
        return [
            subprocess.Popen(
                [sys.executable, "-m", "regard.data.solving", *own, str(worker), str(processes)],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stderr=subprocess.PIPE,
            )
            for worker in range(processes)
        ]

    def _look(self) -> None:
        """Map new files; join them when all are there."""
        if time.monotonic() - self._looked < LOOK:
            return
        self._looked = time.monotonic()
        if self.path.exists():  # another run has joined them
            self._finish()
            return
        for worker in self._workers:
            if worker.poll():
                raise DataError(f"{self.sets.question}: solving failed: {_last_line(worker)}.")
        with suppress(FileNotFoundError):  # another run has joined and removed them; see the next check
            for file in self.folder.glob("*.pt"):
                if (number := int(file.stem)) not in self._parts:
                    self._parts[number] = torch.load(file, mmap=True)
        if len(self._parts) == -(-self.count // PART):
            self._join()

    def _join(self) -> None:
        with storage.whole(self.path) as file:
            torch.save(torch.cat([self._parts[number] for number in sorted(self._parts)]), file)
        _log.info("%s: %d sets in %.0f s", self.path, self.count, time.perf_counter() - self._began)
        self._finish()

    def _finish(self) -> None:
        self._whole = torch.load(self.path, mmap=True)
        self._parts.clear()
        self._end()
        for file in self.folder.glob("*"):
            file.unlink(missing_ok=True)
        with suppress(OSError):  # another run is still writing there
            self.folder.rmdir()


def _last_line(worker: subprocess.Popen[bytes]) -> str:
    said = worker.communicate()[1].decode(errors="replace").strip().splitlines()
    return said[-1] if said else "a process died"


def _stop(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        worker.kill()
        worker.wait()
        if worker.stderr is not None:
            worker.stderr.close()


def _solve(words: Sequence[str]) -> None:
    """Main function of a worker: solve every `processes`-th part that is missing."""
    question, key, shortest, longest, spread, folder, count, worker, processes = words
    sets = PointSets(question, key, int(shortest), int(longest), cast(Spread, spread))
    kind = torch.int8 if sets.longest < 128 else torch.int16
    parent = os.getppid()
    if hasattr(os, "nice"):
        os.nice(NICE)
    for number in range(int(worker), -(-int(count) // PART), int(processes)):
        path = Path(folder) / f"{number}.pt"
        if os.getppid() != parent or not path.parent.exists():  # the training process is gone
            return
        if not path.exists():
            found = sets.answers(torch.arange(number * PART, min((number + 1) * PART, int(count))))
            with storage.whole(path) as file:
                torch.save(found.to(kind), file)


if __name__ == "__main__":
    _solve(sys.argv[1:])

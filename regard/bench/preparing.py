"""Compile in several processes at once, before anything is measured, what is compiled for its size.

torch.compile and FlexAttention take seconds to minutes for each size. What they make lies on disk afterwards
(TORCHINDUCTOR_CACHE_DIR), so that the process that measures need not make it, one after the other: others do
it beforehand, all at once, and it finds what they made. What they did not finish is not measured, since it
would be compiled again for as long; what failed is not tried again.
"""

import os
import time
from collections.abc import Callable, Sequence
from multiprocessing import TimeoutError, get_context
from typing import Any

SHORT = 12  # words of an error that go into a table


def failure(error: Exception) -> str:
    """An error as a clause."""
    words = (str(error).strip() or type(error).__name__).split()
    return f"failed: {' '.join(words[:SHORT])}{' …' if len(words) > SHORT else ''}"


def in_parallel(
    function: Callable[..., None], jobs: Sequence[tuple[Any, ...]], *, workers: int, seconds: float
) -> list[str | None]:
    """Call the function with each job's arguments; of each, None or why there is nothing to find.

    The first jobs are begun first. After so many seconds nothing is waited for.
    """
    late = f"not compiled within {seconds:.0f} s"
    found: list[str | None] = [late] * len(jobs)
    end = time.monotonic() + seconds
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # the processes are the threads
    pool = get_context("spawn").Pool(min(workers, len(jobs)), initializer=_alone)
    try:
        done = pool.imap_unordered(_attempt, [(i, function, job) for i, job in enumerate(jobs)])
        for _ in jobs:
            i, reason = done.next(timeout=max(0.0, end - time.monotonic()))
            found[i] = reason
    except TimeoutError:
        pass
    finally:
        pool.terminate()
        pool.join()
    return found


def _alone() -> None:
    import torch

    torch.set_num_threads(1)


def _attempt(task: tuple[int, Callable[..., None], tuple[Any, ...]]) -> tuple[int, str | None]:
    i, function, job = task
    try:
        function(*job)
    except Exception as error:  # what cannot be compiled is a finding, and no reason to stop
        return i, failure(error)
    return i, None

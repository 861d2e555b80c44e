"""Compiles rivals and kernels in several processes before anything is measured.

torch.compile and FlexAttention need seconds to minutes for each size, and cache the result on disk
(TORCHINDUCTOR_CACHE_DIR). So several processes compile everything beforehand, and the measuring process finds
it there. What they did not finish is not measured, since compiling it again would take as long; what failed
is not retried.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from multiprocessing import TimeoutError, get_context
from typing import Any

import torch

from regard.bench.bench_plan import Plan
from regard.bench.problems import Mechanism, make
from regard.bench.rivals import RIVALS

SHORT = 12  # words of an error that go into a table
Contest = tuple[Mechanism, bool, str]  # the mechanism, whether with the backward pass, and the rival's name


def prepared(plan: Plan, say: Callable[[str], None]) -> dict[Contest, str]:
    """Compile what will be measured, our own kernels too; returns what is not in the cache, and why."""
    if not plan.processes:
        return {}
    kernels: list[Contest] = [(m, plan.passes[-1], "") for m in plan.mechanisms]
    jobs = kernels + compiled_contests(plan)
    began = time.perf_counter()
    found = in_parallel(
        compile_one,
        [(plan, *job) for job in jobs],
        workers=plan.processes,
        seconds=plan.preparing * plan.deadline,
    )
    missing = {job: reason for job, reason in zip(jobs, found, strict=True) if reason is not None}
    say(
        f"{len(jobs) - len(missing)} of {len(jobs)} kernels compiled by {plan.processes} processes in "
        f"{time.perf_counter() - began:.0f} s"
    )
    return missing


def compiled_contests(plan: Plan) -> list[Contest]:
    """All measurements that need torch.compile, in order of interest."""
    problems = [make(m, replace(plan.size, B=1), plan.device, plan.dtype) for m in plan.mechanisms]
    problems.sort(key=lambda problem: problem.fused()[0] is None)
    rivals = [rival for rival in RIVALS if rival.compiles and rival.name in plan.rivals]
    return [
        (problem.mechanism, training, rival.name)
        for problem, training, rival in product(problems, plan.passes, rivals)
        if rival.applies(problem) and rival.refuses(problem, training) is None
    ]


def compile_one(plan: Plan, mechanism: Mechanism, training: bool, name: str) -> None:
    """Run one call of the rival; without a name, of our own kernel at every size."""
    torch.compiler.reset()
    with torch.set_grad_enabled(training):
        if name:
            problem = make(mechanism, plan.size, plan.device, plan.dtype)
            rival = next(rival for rival in RIVALS if rival.name == name)
            problem.passed(rival.build(problem), training=training)()
            return
        sizes = [plan.size, replace(plan.size, B=1)]
        sizes += [replace(plan.growth, N=N) for N in plan.lengths if mechanism.growing]
        for size in sizes:
            problem = make(mechanism, size, plan.device, plan.dtype)
            kernel, _ = problem.fused()
            if kernel is not None:
                problem.call(kernel, training=training)()


def failure(error: Exception) -> str:
    """An error as a clause."""
    words = (str(error).strip() or type(error).__name__).split()
    return f"failed: {' '.join(words[:SHORT])}{' …' if len(words) > SHORT else ''}"


def in_parallel(
    function: Callable[..., None], jobs: Sequence[tuple[Any, ...]], *, workers: int, seconds: float
) -> list[str | None]:
    """Call the function with each job's arguments; returns for each None or why it failed.

    Jobs start in order. After `seconds` the rest is abandoned.
    """
    late = f"not compiled within {seconds:.0f} s"
    found: list[str | None] = [late] * len(jobs)
    end = time.monotonic() + seconds
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # the processes run in parallel already
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
    torch.set_num_threads(1)


def _attempt(task: tuple[int, Callable[..., None], tuple[Any, ...]]) -> tuple[int, str | None]:
    i, function, job = task
    try:
        function(*job)
    except Exception as error:  # a compiler's failure is a finding, not a reason to stop
        return i, failure(error)
    return i, None

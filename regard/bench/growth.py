"""Time and memory of a mechanism as the length doubles, and the cost of its largest weights on demand."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from regard.bench.bench_plan import Plan
from regard.bench.clock import elapsed, exponent, interleaved, peak
from regard.bench.preparing import failure
from regard.bench.problems import Mechanism, Size, make

TOP = 8  # weights per query that a look requests


@dataclass
class Growth:
    """One mechanism in one implementation, over the length."""

    mechanism: Mechanism
    path: str  # "reference" or the kernel
    size: Size
    training: bool
    lengths: list[int] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    stopped: str = ""  # why longer ones were not measured

    @property
    def in_time(self) -> float | None:
        return exponent(self.lengths, self.ms)

    @property
    def in_memory(self) -> float | None:
        return exponent(self.lengths, self.bytes)


@dataclass
class Look:
    """The cost of the largest weights of each query, read from a fused call."""

    mechanism: Mechanism
    kernel: str
    length: int
    ms: float
    bytes: int
    whole: int  # bytes of all weights


def grow(plan: Plan, mechanism: Mechanism, *, until: float) -> list[Growth]:
    """Time and memory over the length, of the reference and of the kernel, which is measured first."""
    training = plan.passes[-1]
    found: list[Growth] = []
    for own in (True, False):
        series = Growth(mechanism, "reference", plan.growth, training)
        for N in plan.lengths:
            series.stopped = reason = foreseen(plan, series, N, until)
            if reason:
                break
            problem = make(mechanism, replace(plan.growth, N=N), plan.device, plan.dtype)
            kernel, _ = problem.fused()
            if own and kernel is None:
                continue
            series.path = kernel if own and kernel is not None else "reference"
            try:
                run = problem.call(series.path, training=training)
                with torch.set_grad_enabled(training):
                    took = interleaved({"run": run}, plan.device, budget=plan.budget / 2, rounds=3)["run"]
                    needed = peak(run, plan.device)
            except Exception as error:
                series.stopped = failure(error)
                break
            series.lengths.append(N)
            series.ms.append(took)
            series.bytes.append(needed)
        if series.lengths:
            found.insert(0, series)
    return found


def looks(plan: Plan, mechanism: Mechanism, grown: list[Growth]) -> list[Look]:
    """A look at the longest length that the kernel reached and where the reference computes rows in time."""
    if len(grown) < 2:
        return []
    reference, fused = grown
    seconds = reference.ms[-1] / 1000 / reference.lengths[-1] ** 2
    near = [N for N in fused.lengths if seconds * N**2 <= plan.longest]
    return [look(plan, mechanism, near[-1])] if near else []


@torch.no_grad()
def look(plan: Plan, mechanism: Mechanism, N: int) -> Look:
    """The largest weights of each query, from the result of a fused call."""
    problem = make(mechanism, replace(plan.growth, N=N), plan.device, plan.dtype)
    attention = problem.attention(problem.fused()[0] or "reference")
    result = attention(problem.query, problem.source, history=problem.history)

    def top() -> Any:
        return result.top(min(TOP, N))

    needed = peak(top, plan.device)
    took = 1000 * elapsed(top, plan.device, calls=1)
    return Look(mechanism, result.kernel, N, took, needed, 4 * problem.query[..., 0].numel() * N)


def foreseen(plan: Plan, series: Growth, N: int, until: float) -> str:
    """Why the next length is not worth trying, if the cost grows with the square of the length."""
    if not series.lengths:
        return ""
    grown = (N / series.lengths[-1]) ** 2
    seconds, size = series.ms[-1] * grown / 1000, series.bytes[-1] * grown
    if size > plan.largest:
        return f"{N} positions would need about {size / 1e9:.0f} GB"
    if seconds > plan.longest:
        return f"a call at {N} positions would take about {seconds:.0f} s"
    if time.perf_counter() + 4 * seconds > until:
        return "the deadline has passed"
    return ""

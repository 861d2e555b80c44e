"""Every mechanism against the reference, torch.compile, FlexAttention and entmax, with SDPA as the yardstick.

    1. parity: the kernel by the error rule, context and every gradient; nothing is timed without it
    2. time and memory of the reference, the kernel and the yardstick: as called, and on a GPU also captured
       as a graph, which is the device's time without the host's
    3. rivals that need no compiler
    4. growth: time and memory of the reference and of the kernel as the length doubles; and at the longest
       length the cost of the largest weights of each query
    5. until the deadline: mechanisms that only the reference computes; then rivals that are compiled for
       each size, which takes seconds. On a GPU several processes compile them before 1 (`preparing`)

If something cannot run, its row has the reason instead of a number.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

import torch

from regard.bench.bench_plan import Plan
from regard.bench.growth import Growth, Look, grow, looks
from regard.bench.preparing import failure, prepared
from regard.bench.problems import Mechanism, make
from regard.bench.row import Row, compare, contests, measure_rival

WARM_UP = 0.5  # seconds of work before measuring on a GPU


@dataclass
class Report:
    """All measurements of a run."""

    plan: Plan
    rows: list[Row] = field(default_factory=list)
    growth: list[Growth] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    ceiling: float | None = None  # additive elements a second
    ceiling_from: str = ""
    seconds: float = 0.0

    def share(self, row: Row) -> float | None:
        """The share of the ceiling that a forward pass of additive attention on a GPU reaches."""
        if self.ceiling is None or row.elements is None or row.training or row.kernel is None:
            return None
        return row.elements / self.ceiling if row.mechanism.score == "additive" else None


def measure(
    plan: Plan,
    say: Callable[[str], None] = lambda line: None,
    keep: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Measure what the plan names, in the order of the module's docstring.

    `keep` also gets the unfinished report, before steps that may take longer than expected.
    """
    began = time.perf_counter()
    end = began + plan.deadline
    report = Report(plan)
    unready = prepared(plan, say)
    settle(plan.device)
    if plan.device == "cuda" and any(m.score == "additive" for m in plan.mechanisms):
        report.ceiling, report.ceiling_from = ceiling()
    problems = (make(mechanism, plan.size, plan.device, plan.dtype) for mechanism in plan.mechanisms)
    fused = [problem.mechanism for problem in problems if problem.fused()[0] is not None]
    others = [mechanism for mechanism in plan.mechanisms if mechanism not in fused]
    report.rows += rows(plan, fused, say, until=inf)
    for row, rival in contests(report.rows):
        if not rival.compiles and measure_rival(plan, row, rival, until=end):
            say(f"{row.mechanism.name}, {row.what}: {rival.name} measured")
    growing = [mechanism for mechanism in plan.mechanisms if mechanism.growing and plan.lengths]
    grown_up = max(began + plan.growing * plan.deadline, time.perf_counter() + plan.deadline / 4)
    for left, mechanism in zip(range(len(growing), 0, -1), growing, strict=True):
        now = time.perf_counter()
        grown = grow(plan, mechanism, until=now + (grown_up - now) / left)
        report.growth += grown
        try:
            report.looks += looks(plan, mechanism, grown)
        except Exception as error:
            say(f"{mechanism.name}, largest weights: {failure(error)}")
        say(f"{mechanism.name}: measured up to {max(plan.lengths)} positions, or as far as it goes")
    keep(report)
    report.rows += rows(plan, others, say, until=end)
    keep(report)
    for row, rival in contests(report.rows):
        if not (rival.compiles or row.kernel is None):
            continue
        if measure_rival(plan, row, rival, until=end, unready=unready):
            say(f"{row.mechanism.name}, {row.what}: {rival.name} measured")
    report.rows.sort(key=lambda row: (plan.mechanisms.index(row.mechanism), row.training))
    report.seconds = time.perf_counter() - began
    return report


def settle(device: str) -> None:
    """Bring allocator and clocks into a steady state.

    Until a process has freed something large, the CPU's allocator takes fresh pages for every tensor of a few
    megabytes; the reference, which is measured first, took twice as long because of that.
    """
    torch.empty(2**23 - 2**12, dtype=torch.float32, device=device)  # just below 32 MiB, the most that counts
    if device == "cuda":  # otherwise the first measurement would include the time until the clocks rise
        x = torch.zeros(1024, 1024, device=device)
        began = time.perf_counter()
        while time.perf_counter() - began < WARM_UP:
            torch.mm(x, x)
            torch.cuda.synchronize()


def rows(
    plan: Plan, mechanisms: Sequence[Mechanism], say: Callable[[str], None], *, until: float
) -> list[Row]:
    """Each mechanism in each pass, until the deadline."""
    found = []
    for mechanism in mechanisms:
        for training in plan.passes:
            if time.perf_counter() > until:
                say(f"{mechanism.name}: the deadline has passed")
                continue
            found.append(compare(plan, mechanism, training=training))
            say(line(found[-1]))
    return found


def ceiling() -> tuple[float | None, str]:
    """Elements a second, measured on this GPU, or None and why that failed."""
    try:
        from regard.bench.ceiling import elements_per_second

        return elements_per_second(), "measured in this run"
    except Exception as error:
        return None, failure(error)


def line(row: Row) -> str:
    """A row as a line of progress."""
    if row.kernel is None:
        return f"{row.mechanism.name}, {row.what}: the reference runs"
    if "fused" in row.missing:
        return f"{row.mechanism.name}, {row.what}: {row.missing['fused']}"
    assert row.parity is not None
    return (
        f"{row.mechanism.name}, {row.what}: {row.kernel}, {row.against['reference']:.1f} times as fast as "
        f"the reference, with {row.parity.largest:.2f} times its error"
    )

"""A row of the table: one mechanism in one pass, with parity, time and memory, and those of its rivals."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from regard.bench.bench_plan import Plan
from regard.bench.clock import CAPTURED, captured, interleaved, peak
from regard.bench.parity import apart
from regard.bench.parity import compare as errors
from regard.bench.preparing import Contest, failure
from regard.bench.problems import Mechanism, Problem, Size, make
from regard.bench.rivals import RIVALS, Rival, yardstick
from regard.bench.rule import Verdict

DRAWS = 4  # problems over which the errors of gradients are taken
LONG = 5.0  # milliseconds from which a call is not limited by the host


@dataclass
class Row:
    """One mechanism in one pass."""

    mechanism: Mechanism
    size: Size
    features: int
    shape: tuple[int, ...]  # of the query
    training: bool
    kernel: str | None  # None: the reference runs
    why: str  # how the kernel was chosen, or why there is none
    parity: Verdict | None = None
    ms: dict[str, float] = field(default_factory=dict)  # reference, fused, SDPA, rivals
    bytes: dict[str, int] = field(default_factory=dict)
    against: dict[str, float] = field(default_factory=dict)  # times of others as multiples of ours
    captured: dict[str, float] = field(default_factory=dict)  # milliseconds of each as a graph
    captured_against: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # what was not measured, and why
    elements: float | None = None  # B·T·S·D a second

    @property
    def what(self) -> str:
        return "forward and backward" if self.training else "forward"

    @property
    def ours(self) -> str:
        return "reference" if self.kernel is None else "fused"


def compare(plan: Plan, mechanism: Mechanism, *, training: bool) -> Row:
    """Parity, then time and memory of the reference, the kernel and the yardstick."""
    problem = make(mechanism, plan.size, plan.device, plan.dtype)
    kernel, why = problem.fused()
    row = Row(mechanism, plan.size, problem.features, tuple(problem.query.shape), training, kernel, why)
    try:
        runs = {"reference": problem.call("reference", training=training)}
        if kernel is not None:
            row.parity = agreed(plan, mechanism, kernel, training=training)
            if row.parity.broken is not None:
                row.missing["fused"] = f"no parity: {row.parity.broken}"
                return row
            runs["fused"] = problem.call(kernel, training=training)
        with torch.set_grad_enabled(training):
            yard = yardstick(problem)
            everyone = runs | {"SDPA": lambda: yard(training)}
            row.ms = interleaved(everyone, plan.device, budget=plan.budget)
            row.captured = as_graphs(plan, row, everyone, row.ms)
            row.bytes = {name: peak(run, plan.device) for name, run in runs.items()}
    except Exception as error:  # one failing mechanism must not lose the others' results
        row.missing["fused"] = failure(error)
        return row
    row.against = ratios(row.ms, row.ours)
    row.captured_against = ratios(row.captured, row.ours)
    row.elements = problem.cells / (row.ms[row.ours] / 1000)
    return row


def ratios(ms: dict[str, float], ours: str) -> dict[str, float]:
    """The times of the others as multiples of ours; empty if ours is missing."""
    return {name: took / ms[ours] for name, took in ms.items() if name != ours and ours in ms}


def as_graphs(
    plan: Plan, row: Row, runs: dict[str, Callable[[], Any]], plain: dict[str, float]
) -> dict[str, float]:
    """Milliseconds per call inside a graph, if the plan asks for it, for calls that can be captured.

    For long calls, `plain` already is the device's time: the host runs ahead of it.
    """
    if not plan.capture:
        return {}
    found = {name: plain[name] for name in runs if plain[name] > LONG}
    graphs = {}
    for name, run in runs.items():
        if name in found:
            continue
        try:
            graphs[name] = captured(run)
        except Exception as error:
            row.missing[f"{name}, captured"] = failure(error)
    took = interleaved(graphs, plan.device, budget=plan.budget / 2)
    graphs.clear()
    if plan.device == "cuda":
        torch.cuda.empty_cache()  # graphs have their own memory pools
    return found | {name: ms / CAPTURED for name, ms in took.items()}


def agreed(plan: Plan, mechanism: Mechanism, kernel: str, *, training: bool) -> Verdict:
    """Parity at the measured length, with one item of the batch, because float64 needs the memory."""
    size = replace(plan.size, B=1)
    problems = [
        make(mechanism, size, plan.device, plan.dtype, seed=seed)
        for seed in range(1, 1 + (DRAWS if training else 1))
    ]
    return errors(problems, kernel, training=training)


def contests(rows: list[Row]) -> list[tuple[Row, Rival]]:
    """Every row with every rival. The slowest and least informative come last and may miss the deadline.

    Compiled rivals take seconds each; if the reference runs, the comparison says little.
    """
    found = [(row, rival) for row in rows for rival in RIVALS]
    return sorted(found, key=lambda pair: (pair[1].compiles, pair[0].kernel is None))


def measure_rival(
    plan: Plan, row: Row, rival: Rival, *, until: float, unready: Mapping[Contest, str] | None = None
) -> bool:
    """Time a rival in turns with ours, at one size; False if it was not measured, and the row says why."""
    if "fused" in row.missing or rival.name not in plan.rivals:
        return False
    problem = make(row.mechanism, row.size, plan.device, plan.dtype)
    if not rival.applies(problem):
        return False
    reason = rival.refuses(problem, row.training)
    reason = reason or (unready or {}).get((row.mechanism, row.training, rival.name))
    if reason is None and time.perf_counter() > until:
        reason = "the deadline has passed"
    try:
        reason = reason or time_rival(plan, row, rival, problem)
    except Exception as error:  # a compiler's failure is a finding, not the end of the run
        reason = failure(error)
    if reason is not None:
        row.missing[rival.name] = reason
    return reason is None


def time_rival(plan: Plan, row: Row, rival: Rival, problem: Problem) -> str | None:
    """Time both, as called and as graphs; returns why the rival's output is wrong, if it is."""
    torch.compiler.reset()
    with torch.set_grad_enabled(row.training):
        run = rival.build(problem)
        off = apart(run(), problem.context(problem.attention("reference")))
        if off is not None:
            return off
        theirs = problem.passed(run, training=row.training)
        ours = problem.call(row.kernel or "reference", training=row.training)
        both = {rival.name: theirs, "ours": ours}
        took = interleaved(both, plan.device, budget=plan.budget / (2 if plan.capture else 1))
        graphs = as_graphs(plan, row, both, took)
        row.bytes[rival.name] = peak(theirs, plan.device)
    row.ms[rival.name] = took[rival.name]
    row.against |= ratios(took, "ours")
    row.captured |= {name: ms for name, ms in graphs.items() if name != "ours"}
    row.captured_against |= ratios(graphs, "ours")
    return None

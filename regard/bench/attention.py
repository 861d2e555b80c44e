"""Every mechanism against the reference, torch.compile, FlexAttention and entmax, beside SDPA.

    1. parity: the kernel by the error rule, context and every gradient; without it no time is taken
    2. time and memory of the reference, the kernel and the yardstick: as called, and on a GPU captured as a
       graph too, which is the device's time without the host's
    3. rivals that need no compiler
    4. growth: time and memory of the reference and of the kernel as the length doubles; and at the longest
       what it costs to ask for the largest weights of each query
    5. as far as the deadline lets, what the reference alone computes; then the rivals that are compiled for
       their size, which takes seconds: on a GPU several processes have done it before 1 (`preparing`)

What cannot run says why, in the row where its number would stand.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import torch
from torch import Tensor

from regard.bench.clock import CAPTURED, captured, elapsed, exponent, interleaved, peak
from regard.bench.parity import apart
from regard.bench.parity import compare as errors
from regard.bench.preparing import failure, in_parallel
from regard.bench.problems import MECHANISMS, Mechanism, Problem, Size, make
from regard.bench.rivals import RIVALS, Rival, yardstick
from regard.bench.rule import Verdict

CEILING = 7.60e12  # elements a second on an H200 with operands in registers, as measured for the kernel page
TOP = 8  # weights of each query that a look asks for
DRAWS = 4  # problems over which the errors of gradients are taken
WARM_UP = 0.5  # seconds of work before a GPU is measured
LONG = 5.0  # milliseconds of a call that no host holds up


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured, and how much time there is."""

    device: str
    dtype: torch.dtype
    size: Size
    apart: str = ""  # after the name of the records, where they shall not replace those of the standard
    lengths: tuple[int, ...]
    growth: Size  # its N is not used
    passes: tuple[bool, ...] = (False, True)  # forward; forward and backward
    mechanisms: tuple[Mechanism, ...] = MECHANISMS
    rivals: tuple[str, ...] = ("by-hand", "entmax", "flex", "compile")
    capture: bool = False  # also measure what the device does without the host
    growing: float = 0.6  # of the deadline, until which growth may be measured; it has a quarter at least
    processes: int = 0  # that compile beforehand; none: what is compiled is so when its turn comes
    preparing: float = 0.27  # of the deadline, which they have
    deadline: float = 170.0  # seconds, for all
    budget: float = 0.4  # seconds for each number
    longest: float = 10.0  # seconds that one call may take
    largest: float = 4e9  # bytes that one call may need


def standard(device: str, *, quick: bool = False) -> Plan:
    """Sizes that tell something on this device."""
    if device == "cuda":
        free = float(torch.cuda.mem_get_info()[0])
        plan = Plan(
            device=device,
            dtype=torch.bfloat16,
            size=Size(8, 1024, 128),
            lengths=(1024, 2048, 4096, 8192, 16384),
            growth=Size(1, 0, 64),
            rivals=("by-hand", "sorted", "entmax", "flex", "compile"),
            capture=True,
            growing=0.7,
            budget=0.1,
            processes=max(1, min(12, (os.cpu_count() or 1) - 2)),
            deadline=150.0,
            longest=2.0,
            largest=0.6 * free,
        )
        if not quick:
            return plan
        plan = replace(plan, lengths=(512, 1024, 2048), processes=0, deadline=60.0)
        return replace(plan, rivals=("by-hand", "sorted", "entmax"))
    plan = Plan(
        device=device,
        dtype=torch.float32,
        size=Size(2, 512, 64),
        lengths=(256, 512, 1024, 2048, 4096, 8192, 16384),
        growth=Size(1, 0, 32),
    )
    if not quick:
        return plan
    return replace(
        plan,
        size=Size(2, 128, 32),
        lengths=(64, 128, 256, 512),
        rivals=("by-hand", "entmax"),
        budget=0.05,
        deadline=50.0,
    )


@dataclass
class Row:
    """One mechanism in one pass."""

    mechanism: Mechanism
    size: Size
    features: int
    shape: tuple[int, ...]  # of the query
    training: bool
    kernel: str | None  # None: the reference runs
    why: str  # how the kernel was found, or why there is none
    parity: Verdict | None = None
    ms: dict[str, float] = field(default_factory=dict)  # reference, fused, SDPA, rivals
    bytes: dict[str, int] = field(default_factory=dict)
    against: dict[str, float] = field(default_factory=dict)  # times of others as multiples of ours
    captured: dict[str, float] = field(default_factory=dict)  # milliseconds of each as a graph
    captured_against: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # what has no number, and why
    elements: float | None = None  # B·T·S·D a second

    @property
    def what(self) -> str:
        return "forward and backward" if self.training else "forward"

    @property
    def ours(self) -> str:
        return "reference" if self.kernel is None else "fused"


@dataclass
class Growth:
    """One mechanism in one implementation over the length."""

    mechanism: Mechanism
    path: str  # "reference" or the kernel
    size: Size
    training: bool
    lengths: list[int] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    stopped: str = ""  # why it went no further

    @property
    def in_time(self) -> float | None:
        return exponent(self.lengths, self.ms)

    @property
    def in_memory(self) -> float | None:
        return exponent(self.lengths, self.bytes)


@dataclass
class Look:
    """What it costs to ask a fused call for the largest weights of each query."""

    mechanism: Mechanism
    kernel: str
    length: int
    ms: float
    bytes: int
    whole: int  # bytes of all weights


@dataclass
class Report:
    """All that was measured."""

    plan: Plan
    rows: list[Row] = field(default_factory=list)
    growth: list[Growth] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    ceiling: float | None = None  # additive elements a second
    ceiling_from: str = ""
    seconds: float = 0.0

    def share(self, row: Row) -> float | None:
        """Of the ceiling, for a forward pass of additive attention on a GPU."""
        if self.ceiling is None or row.elements is None or row.training or row.kernel is None:
            return None
        return row.elements / self.ceiling if row.mechanism.score == "additive" else None


def measure(
    plan: Plan,
    say: Callable[[str], None] = lambda line: None,
    keep: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Measure what the plan names, in the order of the module's docstring.

    `keep` gets the report on the way too, before what may take longer than foreseen.
    """
    began = time.perf_counter()
    end = began + plan.deadline
    report = Report(plan)
    unready = prepared(plan, say)
    settle(plan.device)
    if plan.device == "cuda" and any(m.score == "additive" for m in plan.mechanisms):
        report.ceiling, report.ceiling_from = ceiling()
    fused = [mechanism for mechanism in plan.mechanisms if has_kernel(plan, mechanism)]
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
            say(f"{mechanism.name}: asked for its largest weights, it {failure(error)}")
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
    """Let the allocator keep what is freed from now on.

    Until a process has freed something large, that of a CPU takes fresh pages for each tensor of some
    megabytes: the reference that was measured first took twice as long for it.
    """
    torch.empty(2**23 - 2**12, dtype=torch.float32, device=device)  # below 32 MiB, the most that counts
    if device == "cuda":  # what is measured first would pay for clocks that have yet to rise
        x = torch.zeros(1024, 1024, device=device)
        began = time.perf_counter()
        while time.perf_counter() - began < WARM_UP:
            torch.mm(x, x)
            torch.cuda.synchronize()


Contest = tuple[Mechanism, bool, str]  # with the backward pass or without, and the rival's name


def prepared(plan: Plan, say: Callable[[str], None]) -> dict[Contest, str]:
    """Compile what will be measured, our own kernels too; what is not to be found afterwards, and why."""
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
    """What torch.compile has to do with, in order of interest."""
    found: list[tuple[bool, Contest]] = []
    for mechanism in plan.mechanisms:
        problem = make(mechanism, replace(plan.size, B=1), plan.device, plan.dtype)
        without = problem.fused()[0] is None
        rivals = [r for r in RIVALS if r.compiles and r.name in plan.rivals and r.applies(problem)]
        for training in plan.passes:
            able = [rival for rival in rivals if rival.refuses(problem, training) is None]
            found += [(without, (mechanism, training, rival.name)) for rival in able]
    return [contest for _, contest in sorted(found, key=lambda pair: pair[0])]


def compile_one(plan: Plan, mechanism: Mechanism, training: bool, name: str) -> None:
    """One call of a rival; or of our own kernel at every size, where none is named."""
    torch.compiler.reset()
    with torch.set_grad_enabled(training):
        if name:
            problem = make(mechanism, plan.size, plan.device, plan.dtype)
            rival = next(rival for rival in RIVALS if rival.name == name)
            passed(problem, rival.build(problem), training=training)()
            return
        sizes = [plan.size, replace(plan.size, B=1)]
        sizes += [replace(plan.growth, N=N) for N in plan.lengths if mechanism.growing]
        for size in sizes:
            problem = make(mechanism, size, plan.device, plan.dtype)
            kernel, _ = problem.fused()
            if kernel is not None:
                call(problem, kernel, training=training)()


def rows(
    plan: Plan, mechanisms: Sequence[Mechanism], say: Callable[[str], None], *, until: float
) -> list[Row]:
    """Each mechanism in each pass, as far as the time goes."""
    found = []
    for mechanism in mechanisms:
        for training in plan.passes:
            if time.perf_counter() > until:
                say(f"{mechanism.name}: the deadline came")
                continue
            found.append(compare(plan, mechanism, training=training))
            say(line(found[-1]))
    return found


def has_kernel(plan: Plan, mechanism: Mechanism) -> bool:
    """Something is measured there that is not the reference."""
    return make(mechanism, plan.size, plan.device, plan.dtype).fused()[0] is not None


def compare(plan: Plan, mechanism: Mechanism, *, training: bool) -> Row:
    """Parity, then time and memory of the reference, the kernel and the yardstick."""
    problem = make(mechanism, plan.size, plan.device, plan.dtype)
    kernel, why = problem.fused()
    row = Row(mechanism, plan.size, problem.features, tuple(problem.query.shape), training, kernel, why)
    try:
        runs = {"reference": call(problem, "reference", training=training)}
        if kernel is not None:
            row.parity = agreed(plan, mechanism, kernel, training=training)
            if row.parity.broken is not None:
                row.missing["fused"] = f"no parity: {row.parity.broken}"
                return row
            runs["fused"] = call(problem, kernel, training=training)
        with torch.set_grad_enabled(training):
            yard = yardstick(problem)
            everyone = runs | {"SDPA": lambda: yard(training)}
            row.ms = interleaved(everyone, plan.device, budget=plan.budget)
            row.captured = as_graphs(plan, row, everyone, row.ms)
            row.bytes = {name: peak(run, plan.device) for name, run in runs.items()}
    except Exception as error:  # one mechanism that fails must not take the others' numbers with it
        row.missing["fused"] = failure(error)
        return row
    row.against = ratios(row.ms, row.ours)
    row.captured_against = ratios(row.captured, row.ours)
    row.elements = problem.cells / (row.ms[row.ours] / 1000)
    return row


def ratios(ms: dict[str, float], ours: str) -> dict[str, float]:
    """The times of the others as multiples of ours; nothing where ours is missing."""
    return {name: took / ms[ours] for name, took in ms.items() if name != ours and ours in ms}


def as_graphs(
    plan: Plan, row: Row, runs: dict[str, Callable[[], Any]], plain: dict[str, float]
) -> dict[str, float]:
    """Milliseconds of a call of each inside a graph, where that is wanted and where they can be in one.

    Of a call that takes long, `plain` says what the device does: the host is ready before it.
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
        torch.cuda.empty_cache()  # a graph has memory of its own
    return found | {name: ms / CAPTURED for name, ms in took.items()}


def agreed(plan: Plan, mechanism: Mechanism, kernel: str, *, training: bool) -> Verdict:
    """Parity at the measured length, one item of the batch: float64 needs the room."""
    size = replace(plan.size, B=1)
    problems = [
        make(mechanism, size, plan.device, plan.dtype, seed=seed)
        for seed in range(1, 1 + (DRAWS if training else 1))
    ]
    return errors(problems, kernel, training=training)


def call(problem: Problem, kernel: str, *, training: bool) -> Callable[[], Any]:
    """One call under a kernel, with its gradients if wanted."""
    attention = problem.attention(kernel)
    return passed(problem, lambda: problem.context(attention), training=training)


def passed(problem: Problem, run: Callable[[], Tensor], *, training: bool) -> Callable[[], Any]:
    """The forward pass, or the forward and the backward pass."""
    if not training:
        return run
    leaves = list(problem.leaves().values())
    direction = torch.randn_like(problem.query)  # values are as wide as queries
    return lambda: torch.autograd.grad(run(), leaves, direction, allow_unused=True)


def grow(plan: Plan, mechanism: Mechanism, *, until: float) -> list[Growth]:
    """Time and memory over the length, of the reference and of the kernel, which goes first."""
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
                run = call(problem, series.path, training=training)
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
    """A look at the greatest length that the kernel reached, if the reference makes its rows in time."""
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
    """Why the next length is not worth trying: cost that grows with the square of the length, at worst."""
    if not series.lengths:
        return ""
    grown = (N / series.lengths[-1]) ** 2
    seconds, size = series.ms[-1] * grown / 1000, series.bytes[-1] * grown
    if size > plan.largest:
        return f"{N} positions would need about {size / 1e9:.0f} GB"
    if seconds > plan.longest:
        return f"a call at {N} positions would take about {seconds:.0f} s"
    if time.perf_counter() + 4 * seconds > until:
        return "the deadline came"
    return ""


def contests(rows: list[Row]) -> list[tuple[Row, Rival]]:
    """Every row with every rival. What takes longest or tells least comes last and may fall to the deadline.

    Rivals that are compiled take seconds each; where the reference runs, there is nothing to be told apart.
    """
    found = [(row, rival) for row in rows for rival in RIVALS]
    return sorted(found, key=lambda pair: (pair[1].compiles, pair[0].kernel is None))


def measure_rival(
    plan: Plan, row: Row, rival: Rival, *, until: float, unready: Mapping[Contest, str] | None = None
) -> bool:
    """Time a rival by turns with ours, at one size; whether there is a number, else the row says why not."""
    if "fused" in row.missing or rival.name not in plan.rivals:
        return False
    problem = make(row.mechanism, row.size, plan.device, plan.dtype)
    if not rival.applies(problem):
        return False
    reason = rival.refuses(problem, row.training)
    reason = reason or (unready or {}).get((row.mechanism, row.training, rival.name))
    if reason is None and time.perf_counter() > until:
        reason = "the deadline came"
    try:
        reason = reason or time_rival(plan, row, rival, problem)
    except Exception as error:  # what a compiler cannot compile is a finding, not the end of the run
        reason = failure(error)
    if reason is not None:
        row.missing[rival.name] = reason
    return reason is None


def time_rival(plan: Plan, row: Row, rival: Rival, problem: Problem) -> str | None:
    """The times of both, as called and as graphs; or why the rival's numbers are not worth timing."""
    torch.compiler.reset()
    with torch.set_grad_enabled(row.training):
        run = rival.build(problem)
        off = apart(run(), problem.context(problem.attention("reference")))
        if off is not None:
            return off
        theirs = passed(problem, run, training=row.training)
        ours = call(problem, row.kernel or "reference", training=row.training)
        both = {rival.name: theirs, "ours": ours}
        took = interleaved(both, plan.device, budget=plan.budget / (2 if plan.capture else 1))
        graphs = as_graphs(plan, row, both, took)
        row.bytes[rival.name] = peak(theirs, plan.device)
    row.ms[rival.name] = took[rival.name]
    row.against |= ratios(took, "ours")
    row.captured |= {name: ms for name, ms in graphs.items() if name != "ours"}
    row.captured_against |= ratios(graphs, "ours")
    return None


def ceiling() -> tuple[float | None, str]:
    """Measured on this GPU; else the figure of the kernel page, if it is the same GPU."""
    try:
        from regard.bench.ceiling import elements_per_second

        return elements_per_second(), "measured in this run"
    except Exception as error:
        if "H200" in torch.cuda.get_device_name():
            return CEILING, f"measured earlier on an H200 ({failure(error)})"
        return None, failure(error)


def line(row: Row) -> str:
    """A row while it is measured."""
    if row.kernel is None:
        return f"{row.mechanism.name}, {row.what}: the reference runs"
    if "fused" in row.missing:
        return f"{row.mechanism.name}, {row.what}: {row.missing['fused']}"
    assert row.parity is not None
    return (
        f"{row.mechanism.name}, {row.what}: {row.kernel}, {row.against['reference']:.1f} times as fast as "
        f"the reference; error {row.parity.largest:.2f} times its"
    )

"""Time, memory and growth of calls, measured the same way by every benchmark.

Times are medians over rounds in which all competitors take turns, so that a machine that slows down slows all
of them. The order changes every round, and each runs once before it is timed, because what the previous one
left in caches and allocator is worth up to a sixth of a call. A GPU is timed by device events; a CPU with one
thread by process time, which other work on the machine hardly affects, with more threads by the wall clock.
"""

import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

ROUNDS = 7
LONGEST_ROUND = 200  # calls, back to back
WARM = 3  # warm-up calls before a capture
CAPTURED = 8  # calls per graph
FITTED = 4  # how many of the longest lengths a growth is fitted to


def interleaved(
    runs: Mapping[str, Callable[[], Any]], device: str, *, budget: float = 1.0, rounds: int = ROUNDS
) -> dict[str, float]:
    """The median milliseconds of each call, taking turns, within about `budget` seconds each."""
    single = {}
    for name, run in runs.items():
        single[name] = elapsed(run, device, calls=1)
        # on a CPU a long call is warm after one run; on a GPU it was long because it compiled a kernel, and a
        # single call would be timed, with host and device time in sequence
        if device == "cuda" or single[name] < 2 * budget:
            run()
            single[name] = elapsed(run, device, calls=1)
    calls = {
        name: max(1, min(LONGEST_ROUND, int(budget / rounds / max(once, 1e-7))))
        for name, once in single.items()
    }
    least = {name: max(1, min(rounds, int(2 * budget / max(once, 1e-7)))) for name, once in single.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds):
        for name in random.Random(turn).sample(list(runs), len(runs)):
            if turn < least[name]:
                if calls[name] > 1:
                    runs[name]()
                times[name].append(elapsed(runs[name], device, calls=calls[name]))
    return {name: 1000 * statistics.median(found) for name, found in times.items()}


def elapsed(run: Callable[[], Any], device: str, *, calls: int) -> float:
    """Seconds per call, the mean of several back to back."""
    if device == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1000 / calls
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    began = clock()
    for _ in range(calls):
        run()
    return (clock() - began) / calls


def captured(run: Callable[[], Any]) -> Callable[[], Any]:
    """CAPTURED calls as one CUDA graph: the device's time without the host's.

    Several calls, since launching a graph takes as long as a short call. Raises if a call cannot be captured.
    """
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM):
            run()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CAPTURED):
            run()
    torch.cuda.synchronize()
    return graph.replay


def peak(run: Callable[[], Any], device: str) -> int:
    """The peak memory of a call in bytes, beyond what was allocated before it."""
    if device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with _without_messages(), torch.profiler.profile(profile_memory=True) as profile:
        run()
    events = profile.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


@contextmanager
def _without_messages() -> Iterator[None]:
    """Silence stderr, where the profiler reports, from C++, that it starts and stops."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def exponent(lengths: Sequence[int], values: Sequence[float]) -> float | None:
    """The exponent of the length in the values: the slope of the last points on a log-log scale."""
    if len(lengths) < 2 or min(values[-FITTED:]) <= 0:
        return None
    x = [math.log(n) for n in lengths[-FITTED:]]
    y = [math.log(v) for v in values[-FITTED:]]
    return statistics.linear_regression(x, y).slope

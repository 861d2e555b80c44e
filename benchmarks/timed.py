"""Trainings side by side that are given seconds, not steps: each measures its speed and plans what fits."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

SLOW = 3.0  # times the usual duration: such a step captured a graph
Children = dict[str, tuple["subprocess.Popen[bytes]", Path]]  # name -> process, log


def start(script: str, orders: Sequence[Mapping[str, Any]], work: Path) -> Children:
    """`script --train ORDER` in a process for each order, which has a name; all share the cores."""
    threads = str(max((os.cpu_count() or 1) // len(orders), 1))
    environment = os.environ | {
        "OMP_NUM_THREADS": threads,
        "RAYON_NUM_THREADS": threads,
        "REGARD_CACHE": str(work / "cache"),
    }
    children: Children = {}
    for order in orders:
        name = str(order["name"])
        log = work / f"{name}.log"
        with log.open("wb") as file:
            words = [sys.executable, script, "--train", json.dumps({"work": str(work), **order})]
            process = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, env=environment)
        children[name] = (process, log)
    return children


def wait(children: Children, *, stop: float, kill: float) -> None:
    """Until all are over; at `stop` trainings are told to end, at `kill` processes are ended."""
    for moment, act in ((stop, "terminate"), (kill, "kill")):
        for process, _ in children.values():
            try:
                process.wait(max(moment - time.monotonic(), 0.05))
            except subprocess.TimeoutExpired:
                getattr(process, act)()
    for process, _ in children.values():
        process.wait()


def answers(children: Children, work: Path) -> dict[str, Any]:
    """What the processes have written into `work/NAME.json`; of the others the last lines are shown."""
    found = {}
    for name, (_, log) in children.items():
        path = work / f"{name}.json"
        if path.exists():
            found[name] = json.loads(path.read_text(encoding="utf-8"))
        else:
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
            say(f"{name}: nothing in time: {' / '.join(said)}")
    return found


def answer(work: Path, name: str, found: Mapping[str, Any]) -> None:
    """Write `work/NAME.json`, whole or not at all."""
    aside = work / f"{name}.part"
    aside.write_text(json.dumps(found), encoding="utf-8")
    aside.replace(work / f"{name}.json")


def together(work: Path, name: str, trainings: int, patience: float = 120.0) -> None:
    """Wait until all are ready, so that they are timed side by side."""
    (work / f"{name}.ready").touch()
    began = time.monotonic()
    while len(list(work.glob("*.ready"))) < trainings and time.monotonic() < began + patience:
        time.sleep(0.2)


class Clock:
    """Progress that keeps the time of each report: of the day, or what `now` says."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.times: dict[int, float] = {}
        self.now = now

    def start(self, step: int, steps: int) -> None:
        self.times[step] = self.now()

    def update(self, view: Any) -> None:
        self.times[view.step] = self.now()

    def note(self, text: str) -> None: ...
    def stop(self) -> None: ...


class Speed(NamedTuple):
    """Steps a second once all is set up, and the seconds that a beginning costs beyond them."""

    rate: float
    beginning: float

    @classmethod
    def of(cls, times: Mapping[int, float]) -> "Speed":
        """From the moments at which a start and the steps after it were over.

        Steps of the second half tell the rate, without the slow ones: a step whose batch has a new shape
        captures its graph, which a long training does once and not again and again.
        """
        moments = sorted(times.items())
        spans = [(ended - began) / (last - first) for (first, began), (last, ended) in pairwise(moments)]
        later = spans[len(spans) // 2 :]
        usual = [span for span in later if span <= SLOW * statistics.median(later)]
        rate = len(usual) / sum(usual)
        (first, began), (last, ended) = moments[0], moments[-1]
        return cls(rate, max(ended - began - (last - first) / rate, 0.0))

    def steps(self, seconds: float) -> int:
        """How many fit into so many seconds."""
        return max(int(0.97 * self.rate * (seconds - self.beginning)), 1)


def speed(config: Any, task: Any, run: Path, tried: int, now: Callable[[], float] = time.monotonic) -> Speed:
    """The speed of a training, told by a short one."""
    from regard.train.config import override
    from regard.train.loop import fit
    from regard.train.run import build_model

    short = override(config, [f"train.steps={tried}"])
    clock = Clock(now)
    fit(build_model(short, task), task, short, run=run, progress=clock)
    return Speed.of(clock.times)


def say(line: str) -> None:
    """A line with the time of day."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)

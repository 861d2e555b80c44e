"""Two trainings on two cores: do they slow each other?

    python benchmarks/threads.py --record

A training alone with one thread; two side by side with one thread each, as `regard compare --jobs 2` starts
them; and, for contrast, two side by side that both take all cores. The slower of the two is compared with the
one alone, in words per second of the same recipe, after the first updates. Losses must agree first: apart
from rounding, threads change only the speed of a training.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ROOT, arguments, keep

RECIPE = "rnnsearch-reverse"
STEPS, LOG = 60, 10
WANTED = 1.25  # two single-threaded processes: each takes at most so many times the time of one alone


def start(folder: Path, threads: int) -> subprocess.Popen[bytes]:
    """A training in a process of its own, with exactly so many threads."""
    settings = [f"train.threads={threads}", f"train.steps={STEPS}", f"train.log_every={LOG}"]
    options = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, "-m", "regard", "train", RECIPE, "--run", str(folder), *options]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
    )


def speed(folder: Path) -> tuple[float, float]:
    """Words per second after the first updates, and the last loss."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if "tokens_per_second" in row]
    return statistics.median(row["tokens_per_second"] for row in rows[1:]), rows[-1]["loss"]


def side_by_side(processes: int, threads: int) -> tuple[list[float], list[float]]:
    """Speeds and last losses of so many trainings at once."""
    with tempfile.TemporaryDirectory() as room:
        folders = [Path(room) / str(n) for n in range(processes)]
        for started in [start(folder, threads) for folder in folders]:
            if started.wait() != 0:
                raise SystemExit(f"a training with {threads} threads failed")
        found = [speed(folder) for folder in folders]
    return [words for words, _ in found], [loss for _, loss in found]


def main() -> None:
    """Measure and, if requested, record."""
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    cores = os.cpu_count() or 1
    began = time.perf_counter()
    alone, paired, crowded, losses = [], [], [], []
    for _ in range(given.runs):
        for processes, threads, speeds in ((1, 1, alone), (cores, 1, paired), (cores, cores, crowded)):
            words, last = side_by_side(processes, threads)
            speeds.append(min(words))
            losses += last
    if not all(math.isclose(loss, losses[0], rel_tol=0.02) for loss in losses):
        raise SystemExit(f"the losses differ: {losses}")
    one, two, all_cores = (statistics.median(speeds) for speeds in (alone, paired, crowded))
    found = {
        "words/s alone, one thread": round(one),
        f"words/s, slower of {cores}, one thread each": round(two),
        f"words/s, slower of {cores}, {cores} threads each": round(all_cores),
        "slowdown": round(one / two, 3),
        "slowdown with all threads each": round(one / all_cores, 3),
        "wanted": WANTED,
        "load of the machine": round(os.getloadavg()[2], 2),
    }
    print(json.dumps(found, indent=1))
    if given.record:
        print(
            keep(
                "threads",
                f"slowdown of a training by {cores - 1} others, one thread each on {cores} cores",
                found["slowdown"],
                seconds=time.perf_counter() - began,
                note="no paper: 1 is none",
                seeds=(1,),
                details=found,
            )
        )


if __name__ == "__main__":
    main()

"""How soon, how fast and in how much memory text is translated, and whether kills cost a line.

    python benchmarks/translate.py --record
    python benchmarks/translate.py --lines 1000000 --kills 10 --record

A stream of so many lines with one process and with two: when the first line comes out, lines a second from
then on, the memory of the largest process, also for a tenth of the lines; both must write the same. Then the
same lines as a file, in two processes, while random processes are killed at random moments: the command
itself, which is then called again, or one of its workers. The final output must verify, and each line must
equal that of the stream.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from common import arguments, keep

from regard.data.grammar import generate
from regard.translate.verify import verify

MODEL = "demo-rnnsearch"  # the smallest translator that ships
STOCK = 20_000  # sentences from which lines are made
WANTED = 1.8  # lines per second of two processes relative to one
POLL = 0.02  # seconds
PATIENCE = 30.0  # seconds within which the workers of a killed command must end


def make_text(path: Path, lines: int) -> None:
    """So many lines of one sentence each."""
    stock = [pair.source_text for pair in islice(generate("fr", "train", words=(3, 10)), STOCK)]
    chance = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(lines):
            file.write(f"{chance.choice(stock)}\n")


def regard(*words: str) -> list[str]:
    """The command, with one thread per process."""
    return [sys.executable, "-m", "regard", "translate", *words]


def stream(text: Path, lines: int, processes: int, out: Path) -> dict[str, float]:
    """Translate the first lines of a file as a stream; return the cost."""
    began, before = time.perf_counter(), os.times()
    with (
        out.open("wb") as written,
        subprocess.Popen(["head", "-n", str(lines), str(text)], stdout=subprocess.PIPE) as source,
        subprocess.Popen(
            regard(MODEL, "-", "--processes", str(processes)),
            stdin=source.stdout,
            stdout=subprocess.PIPE,
        ) as process,
    ):
        assert process.stdout is not None
        written.write(process.stdout.readline())
        first = time.perf_counter() - began
        highest = 0.0
        while block := process.stdout.read1(1 << 16):
            written.write(block)
            highest = max(highest, memory(process.pid))
        process.wait()
        assert process.returncode == 0
    seconds, after = time.perf_counter() - began, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return {
        "first line, seconds": round(first, 2),
        "lines/s from then on": round((lines - 1) / (seconds - first), 1),
        "seconds": round(seconds, 1),
        "processor seconds": round(spent, 1),
        "memory MB, largest process": round(highest, 1),
    }


def children(pid: int) -> list[int]:
    """The processes started by the threads of a process that are still running."""
    found = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def memory(pid: int) -> float:
    """The peak resident memory of a process or one of its children, in MB."""
    highest = 0.0
    for each in (pid, *children(pid)):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{each}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    highest = max(highest, int(line.split()[1]) / 1000)
    return highest


def with_kills(text: Path, out: Path, kills: int) -> dict[str, int]:
    """Translate a file in two processes and kill it or a worker so many times; return what was observed."""
    chance, entries = random.Random(), out / "chunks" / text.name
    calls, orphans, killed = 0, 0, {"commands": 0, "workers": 0}
    command = regard(MODEL, str(text), "--out", str(out), "--processes", "2")
    planned: list[int] = []  # after how many chunks, once their number is known
    while True:
        calls += 1
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None:
                time.sleep(POLL)
                if not planned and (out / "plan.json").exists() and sum(killed.values()) == 0:
                    chunks = json.loads((out / "plan.json").read_text())
                    count = -(-sum(own["lines"] for own in chunks["inputs"]) // chunks["chunk"])
                    planned = sorted(chance.sample(range(count - 1), kills))
                if not planned or sum(1 for _ in entries.glob("*.json")) < planned[0]:
                    continue
                time.sleep(chance.uniform(0, 0.5))  # anywhere between two writes
                workers = children(process.pid)
                victim = process.pid if chance.random() < 0.5 or not workers else chance.choice(workers)
                if process.poll() is not None:
                    break
                planned.pop(0)
                os.kill(victim, signal.SIGKILL)
                killed["commands" if victim == process.pid else "workers"] += 1
                if victim == process.pid:
                    process.wait()
                    orphans += alive(workers)
        if process.returncode == 0:
            break
    return {"calls of the command": calls, "workers left behind": orphans, **killed}


def alive(workers: list[int]) -> int:
    """How many of these processes are still running after a while."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers):
        time.sleep(POLL)
    return sum(Path(f"/proc/{pid}/cmdline").exists() for pid in workers)


def differing(one: Path, other: Path) -> int:
    """The number of lines that differ; -1 if one file has more."""
    count = 0
    with one.open("rb") as a, other.open("rb") as b, contextlib.suppress(ValueError):
        for x, y in zip(a, b, strict=True):
            count += x != y
        return count
    return -1


def measure(lines: int, kills: int, folder: Path) -> dict[str, object]:
    """Everything."""
    text = folder / "text.txt"
    make_text(text, lines)
    few = stream(text, lines // 10, 1, folder / "few")
    one = stream(text, lines, 1, folder / "one")
    two = stream(text, lines, 2, folder / "two")
    seen = with_kills(text, folder / "out", kills)
    found = verify(folder / "out")
    return {
        "model": MODEL,
        "lines": lines,
        "characters": text.stat().st_size,
        "one process": one,
        "two processes": two,
        f"one process, {lines // 10} lines": few,
        "lines/s, two processes against one": round(
            two["lines/s from then on"] / one["lines/s from then on"], 3
        ),
        "wanted": WANTED,
        "memory against that of a tenth of the lines": round(
            one["memory MB, largest process"] / few["memory MB, largest process"], 3
        ),
        "lines of two processes that differ from those of one": differing(folder / "one", folder / "two"),
        "kills": seen,
        "chunks": found.plan.chunks,
        "chunks that do not verify": len(found.faults),
        "lines after the kills that differ from the stream": differing(
            folder / "one", folder / "out" / text.name
        ),
        "load of the machine": round(os.getloadavg()[2], 2),
    }


def main() -> None:
    """Measure and, if requested, record; status 1 if a line was lost, doubled or changed."""
    parser = arguments(__doc__)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.lines, given.kills, Path(folder))
    print(json.dumps(found, indent=1))
    if given.record:
        print(
            keep(
                "translate-stream",
                "lines a second of two processes against one",
                found["lines/s, two processes against one"],
                seconds=time.perf_counter() - began,
                details=found,
            )
        )
    faults = ("chunks that do not verify", "lines after the kills that differ from the stream")
    sys.exit(any(found[name] for name in faults) or bool(found["kills"]["workers left behind"]))


if __name__ == "__main__":
    main()

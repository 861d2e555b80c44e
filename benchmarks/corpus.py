"""What it costs to prepare and to train from 10⁵, 10⁶ and 10⁷ sentence pairs.

    python benchmarks/corpus.py --folder /tmp/regard-corpus --pairs 100000 1000000 --processes 1 2
    python benchmarks/corpus.py --folder /tmp/regard-corpus --source train.en --target train.de --record

For each size and each number of processes, in processes of their own and with an empty cache:

    preparing     text to encoded pairs and the first epoch's plan, as `regard train --source A --target B`
    second start  the same again: seconds until the first batch is there
    a rank        one of two processes that train: memory after 200 batches of its share

Memory is private (RssAnon) and resident; the latter counts mapped pages too, which the system can take back.
Without `--source` and `--target` the text is made of the grammar's sentences, two short ones a line, so that
the lines differ. The machine's load before each measurement is recorded: on a busy machine, processor seconds
say more than wall-clock seconds.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

SHORT = 60_000  # sentences of the grammar, from which lines are made
BATCHES = 200  # taken by a rank
LIMIT = 2e9  # bytes of resident memory that preparing must not exceed


def make_text(folder: Path, pairs: int) -> tuple[Path, Path]:
    """Write two files of so many lines, unless they exist."""
    from regard.data.grammar import generate

    paths = folder / f"{pairs}.en", folder / f"{pairs}.fr"
    if all(path.exists() for path in paths):
        return paths
    folder.mkdir(parents=True, exist_ok=True)
    stock = [(p.source_text, p.target_text) for p in islice(generate("fr", "train", words=(3, 10)), SHORT)]
    chance = Random(1)
    with paths[0].open("w", encoding="utf-8") as english, paths[1].open("w", encoding="utf-8") as french:
        for _ in range(pairs):
            (a, b), (c, d) = chance.choice(stock), chance.choice(stock)
            english.write(f"{a} {c}\n")
            french.write(f"{b} {d}\n")
    return paths


def measure(source: str, target: str) -> dict[str, Any]:
    """Prepare, or load what is prepared, and take batches as one of two ranks; return the cost."""
    from regard.data import prepared
    from regard.tasks.files import FilesSettings, FilesTask
    from regard.train.batch_stream import Stream

    prepared.LARGE = 0  # small texts use the cache too, so that sizes are comparable
    imported, began = private_memory(), time.perf_counter()
    settings = FilesSettings(source=source, target=target, source_language="en", target_language="fr")
    task = FilesTask.create(settings)
    learnt = time.perf_counter() - began
    pairs = len(task.encoded("train"))
    encoded = time.perf_counter() - began
    stream = Stream(task, seed=1, batch=2048, processes=2, process=0)
    planned = time.perf_counter() - began
    made = peaks()
    task.batch("train", stream.next())
    first = time.perf_counter() - began
    for _ in range(BATCHES - 1):
        task.batch("train", stream.next())
    return {
        "pairs": pairs,
        "seconds": round(first, 2),
        "tokenizers, seconds": round(learnt, 2),
        "encoding, seconds": round(encoded - learnt, 2),
        "plan, seconds": round(planned - encoded, 2),
        "processor seconds": round(sum(map(processor, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))), 1),
        "peak of the process, MB": made[0],
        "peak of a worker, MB": made[1],
        "private memory after import, MB": imported,
        "private memory after the batches, MB": private_memory(),
        "resident memory, peak MB": peaks()[0],
    }


def processor(who: int) -> float:
    """Processor seconds."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def peaks() -> tuple[int, int]:
    """The peak resident memory of this process and its largest child, in MB."""
    return status("VmHWM"), round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6)


def private_memory() -> int:
    """Private memory of this process, in MB; memory mapped from files does not count."""
    return status("RssAnon")


def status(name: str) -> int:
    """This process's memory according to Linux, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    [found] = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return round(int(found) * 1024 / 1e6)


def run(source: Path, target: Path, cache: Path, processes: int) -> dict[str, Any]:
    """Run `measure` in a process of its own; its result, and the load before it."""
    threads = {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": str(processes)}
    load = round(os.getloadavg()[0], 1)
    done = subprocess.run(
        [sys.executable, __file__, "--folder", str(cache), "--measure", str(source), str(target)],
        env=os.environ | threads | {"REGARD_CACHE": str(cache), "REGARD_PROCESSES": str(processes)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {**json.loads(done.stdout.splitlines()[-1]), "processes": processes, "load before": load}


def both(source: Path, target: Path, folder: Path, processes: int) -> dict[str, dict[str, Any]]:
    """Preparing into an empty cache, and the second start."""
    cache = folder / f"cache-{os.getpid()}"
    try:
        return {name: run(source, target, cache, processes) for name in ("preparing", "second start")}
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def record(found: dict[str, dict[str, Any]]) -> None:
    """The figures of one size and number of processes, in results/corpus.json."""
    from common import keep

    first, again = found["preparing"], found["second start"]
    pairs, processes = first["pairs"], first["processes"]
    which = f"{pairs:,} pairs, processes: {processes}"
    most = (
        first["peak of the process, MB"] + (processes if processes > 1 else 0) * first["peak of a worker, MB"]
    )
    rank = again["private memory after the batches, MB"]
    for metric, value, note in (
        (f"seconds to prepare {which}", first["seconds"], "tokenizers, encoding and the first plan"),
        (f"processor seconds to prepare {which}", first["processor seconds"], "of all processes"),
        (f"memory to prepare {which}, MB", most, "the peaks of all processes, added up"),
        (f"seconds of the second start, {which}", again["seconds"], "until the first batch"),
        (f"memory of a rank, {which}, MB", rank, f"private, after {BATCHES} batches"),
    ):
        keep("corpus", metric, value, seconds=first["seconds"], details=found, note=note)


def main() -> None:
    """Make, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="for the text and the cache")
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--source", type=Path, help="your own text in the place of the grammar's")
    parser.add_argument("--target", type=Path)
    parser.add_argument("--record", action="store_true", help="write results/corpus.json")
    parser.add_argument("--measure", nargs=2, metavar=("SOURCE", "TARGET"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(*given.measure)))
        return
    own = [(given.source, given.target)] if given.source else None
    for source, target in own or (make_text(given.folder, pairs) for pairs in given.pairs):
        for processes in given.processes:
            found = both(source, target, given.folder, processes)
            for name, figures in found.items():
                print(
                    name,
                    *(f"  {key:40} {value:>12,}" for key, value in figures.items()),
                    sep="\n",
                    flush=True,
                )
            if given.record:
                record(found)
            if found["preparing"]["peak of the process, MB"] * 1e6 > LIMIT:
                sys.exit(f"expected under {LIMIT / 1e9} GB.")


if __name__ == "__main__":
    main()

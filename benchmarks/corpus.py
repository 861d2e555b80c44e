"""How much memory and time millions of sentence pairs cost: made, prepared, trained from.

    python benchmarks/corpus.py --pairs 5000000 --folder /tmp/regard-corpus

Writes two text files, prepares them as `regard train --source A --target B` does, and trains a tiny model
for a few steps from what was prepared. Prints how many pairs a minute and core it prepared (by the
processor's time, all passes counted: reading, two tokenizers, encoding) and the peak of resident memory. The
text is made of the grammar's sentences, two short ones a line, so that the lines differ: the grammar alone
would need minutes for five million.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

SHORT = 60_000  # sentences of the grammar that the lines are made of
LIMIT = 1.5e9  # bytes of resident memory that must not be passed
FLOOR = 100_000  # pairs a minute and core


def make_text(folder: Path, pairs: int) -> tuple[Path, Path]:
    """Two files of so many lines, unless they are there already."""
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


def measure(source: str, target: str, folder: Path, steps: int) -> dict[str, float]:
    """Prepare and train; what it cost."""
    from regard.tasks.files import FilesSettings, FilesTask
    from regard.train.config import load_recipe
    from regard.train.loop import fit
    from regard.train.progress import Quiet
    from regard.train.run import build_model

    started, processor = time.perf_counter(), time.process_time()
    imported = peak()
    settings = FilesSettings(source=source, target=target, source_language="en", target_language="fr")
    task = FilesTask.create(settings)
    tokenized = time.process_time() - processor
    pairs = len(task.encoded("train"))
    prepared = time.process_time() - processor
    wall = time.perf_counter() - started
    prepared_peak = peak()
    tables = {"task": {"name": "files", "source": source, "target": target}}
    sizes = [f"model.{name}=32" for name in ("embedding", "hidden", "attention.hidden", "readout")]
    config = load_recipe(
        "translator",
        [*sizes, f"train.steps={steps}", "train.evaluate_every=0", "train.batch=2048"],
        tables=tables,
    )
    began = time.perf_counter()
    fit(build_model(config, task), task, config, run=folder / f"run-{os.getpid()}", progress=Quiet())
    return {
        "pairs": pairs,
        "preparing, processor seconds": round(prepared, 1),
        "of which tokenizers, processor seconds": round(tokenized, 1),
        "preparing, seconds": round(wall, 1),
        "pairs a minute and core": round(60 * pairs / prepared),
        "training, seconds": round(time.perf_counter() - began, 1),
        "steps": steps,
        "memory after import, MB": round(imported / 1e6),
        "memory after preparing, peak MB": round(prepared_peak / 1e6),
        "memory, peak MB": round(peak() / 1e6),
    }


def peak() -> int:
    """The most resident memory so far, mapped pages counted, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def record(found: dict[str, Any]) -> None:
    """The two figures that are asked for, in results/corpus.json."""
    from regard.bench.records import measured
    from regard.evaluate.results import write_result

    seconds = found["preparing, seconds"] + found["training, seconds"]
    for metric, value, note in (
        (
            "sentence pairs prepared a minute and core",
            found["pairs a minute and core"],
            f"{FLOOR:,} asked for",
        ),
        ("peak of resident memory, MB", found["memory, peak MB"], f"at most {LIMIT / 1e6:,.0f} asked for"),
    ):
        result = measured("corpus", metric, value, seconds=seconds, details=found, note=note)
        write_result(Path(__file__).parents[1] / "results", result)


def main() -> None:
    """Make, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--folder", type=Path, required=True, help="for the text, the cache and the run")
    parser.add_argument("--record", action="store_true", help="write results/corpus.json")
    parser.add_argument("--measure", nargs=2, metavar=("SOURCE", "TARGET"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(*given.measure, given.folder, given.steps)))
        return
    source, target = make_text(given.folder, given.pairs)
    alone = {"REGARD_CACHE": str(given.folder / "cache"), "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    words = [sys.executable, __file__, "--folder", str(given.folder), "--steps", str(given.steps)]
    done = subprocess.run(
        [*words, "--measure", str(source), str(target)],
        env=os.environ | alone,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    for name, value in found.items():
        print(f"{name:42} {value:>12,}")
    if given.record:
        record(found)
    if found["memory, peak MB"] * 1e6 > LIMIT or found["pairs a minute and core"] < FLOOR:
        sys.exit(f"expected under {LIMIT / 1e9} GB and over {FLOOR:,} pairs a minute and core.")


if __name__ == "__main__":
    main()

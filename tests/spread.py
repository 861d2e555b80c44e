"""How far thresholds of learning tests lie from what twenty seeds measure.

    python tests/spread.py --out spread.json          # measure all of tests/learning
    python tests/spread.py --write spread.json        # put the means and deviations beside the thresholds
    python tests/spread.py --offsets 1 5 tests/learning/test_copying.py
    python tests/spread.py --offsets 15 20 --add spread.json --out twenty.json     # with what 1 to 14 gave

Runs each file with each seed offset in its own process, as many at a time as there are cores. The processes
are forked from this one, which has imported torch, and see no GPU: the figures are those of a CPU.
"""

import argparse
import ast
import contextlib
import io
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
os.environ |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
sys.path.insert(0, str(HERE.parent))

import pytest  # noqa: E402

import regard.train.loop  # noqa: E402, F401


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("select", nargs="*", help="files or ids of tests; tests/learning")
    parser.add_argument("--offsets", type=int, nargs=2, default=(1, 20), help="the first and the last")
    parser.add_argument("--add", type=Path, help="pool with what this summary has of the same thresholds")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=9.0, help="begin no run after so many minutes")
    parser.add_argument("--out", type=Path, help="write the summary there, as JSON")
    parser.add_argument(
        "--write", type=Path, help="measure nothing; write what this summary has into the tests"
    )
    options = parser.parse_args()
    if options.write:
        return write(json.loads(options.write.read_text()))
    select = options.select or sorted(str(path) for path in (HERE / "learning").glob("test_*.py"))
    end = time.monotonic() + 60 * options.minutes
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder, fork.Pool(options.workers, maxtasksperchild=1) as pool:
        offsets = range(options.offsets[0], options.offsets[1] + 1)
        jobs = [(test, offset, Path(folder), end) for offset in offsets for test in select]
        failures = pool.starmap(measure, jobs, chunksize=1)
        records = [json.loads(line) for path in Path(folder).glob("*.jsonl") for line in path.open()]
    earlier = json.loads(options.add.read_text()) if options.add else []
    rows = sorted(pooled(summaries(records), earlier), key=lambda row: row["margin"])
    for row in rows:
        print("{margin:7.1f} sd  {test} {name} {sense} {threshold}:".format(**row), end=" ")
        print("{mean:.4f} ± {sd:.4f} ({min:.4f} to {max:.4f}, n = {n})".format(**row))
    for failure in filter(None, failures):
        print(failure)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{(spent.ru_utime + spent.ru_stime) / len(offsets):.1f} seconds of a core for a seed")
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    close = [row for row in rows if row["margin"] < 3]
    print(f"{len(rows)} thresholds, {len(close)} nearer than 3 sd")
    return 1 if close or any(failures) else 0


def measure(test, offset, folder, end):
    """Run one file with one offset; returns an error, if any."""
    if time.monotonic() > end:
        return f"{test} with offset {offset}: not run, the time was up"
    record = folder / f"{offset}-{Path(test).name}.jsonl"
    os.environ |= {"REGARD_SEED_OFFSET": str(offset), "REGARD_RECORD_MEASURES": str(record)}
    os.chdir(HERE.parent)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        failed = pytest.main(["-q", "-p", "no:cacheprovider", test])
    return f"{test} with offset {offset}:\n{said.getvalue()[-4000:]}" if failed else None


def summaries(records):
    """A row for each threshold of each test, with mean, deviation and range of the measured values."""
    groups = defaultdict(list)
    for record in records:
        measured = record.pop("measured")
        groups[json.dumps(record)].append(measured)
    for key, values in groups.items():
        sd = statistics.stdev(values) if len(values) > 1 else 0.0
        figures = {"mean": statistics.fmean(values), "sd": sd, "min": min(values), "max": max(values)}
        yield {**json.loads(key), "n": len(values), **figures}


def pooled(rows, earlier):
    """Pool rows with earlier ones for the same thresholds; the margin is in standard deviations."""
    known = {(row["test"], row["name"]): row for row in earlier}
    for row in rows:
        if (row["test"], row["name"]) in known:
            row |= pool(row, known[row["test"], row["name"]])
        room = (row["mean"] - row["threshold"]) * (1 if row["sense"] == "at least" else -1)
        margin = room / row["sd"] if row["sd"] else (999.0 if room >= 0 else -999.0)
        yield {**row, "margin": min(margin, 999.0)}


def pool(a, b):
    """Count, mean, deviation and range of two samples combined."""
    n = a["n"] + b["n"]
    squares = (a["n"] - 1) * a["sd"] ** 2 + (b["n"] - 1) * b["sd"] ** 2
    squares += (a["mean"] - b["mean"]) ** 2 * a["n"] * b["n"] / n
    mean = (a["n"] * a["mean"] + b["n"] * b["mean"]) / n
    extremes = {"min": min(a["min"], b["min"]), "max": max(a["max"], b["max"])}
    return {"n": n, "mean": mean, "sd": (squares / (n - 1)) ** 0.5, **extremes}


def write(rows):
    """Write mean=… and sd=… into the measuring calls; shared calls get those with the least margin."""
    nearest = {}
    for row in rows:  # by increasing margin
        nearest.setdefault((row["file"], row["line"]), row)
    files = {file for file, _ in nearest}
    for file in files:
        source = (HERE.parent / file).read_text()
        lines = source.splitlines(keepends=True)
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
        for call in sorted(calls, key=lambda node: -node.lineno):
            row = nearest.get((file, call.lineno))
            if row is None or getattr(call.func, "id", None) not in ("at_least", "at_most"):
                continue
            given = [word for word in call.keywords if word.arg in ("mean", "sd")]
            arguments = [*call.args, *(word for word in call.keywords if word not in given)]
            texts = [ast.get_source_segment(source, argument) for argument in arguments]
            texts += [f"mean={row['mean']:.4f}", f"sd={row['sd']:.4f}"]
            new = f"{call.func.id}({', '.join(texts)})"
            first, last = call.lineno - 1, call.end_lineno - 1
            head = lines[first].encode()[: call.col_offset].decode()
            tail = lines[last].encode()[call.end_col_offset :].decode()
            lines[first : last + 1] = [head + new + tail]
        (HERE.parent / file).write_text("".join(lines))
    return subprocess.run([sys.executable, "-m", "ruff", "format", "-q", *files], cwd=HERE.parent).returncode


if __name__ == "__main__":
    sys.exit(main())

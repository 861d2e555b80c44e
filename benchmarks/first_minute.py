"""The first minute after installing the package: every line that a new user tries, with its seconds.

    python -m venv fresh && fresh/bin/pip install torch==2.13.0 && fresh/bin/pip install .
    fresh/bin/python benchmarks/first_minute.py --out results

Runs the lines of the README's first screen and one of each kind of model, in one Python as in a notebook,
then the commands, each in a process of its own, in an empty folder. Also adds up what the installation added
to torch and torch's own packages. `--out` records the total.
"""

import argparse
import ast
import os
import re
import resource
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import time
from importlib.metadata import distribution, distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIMIT = 60.0  # seconds

MORE = """
regard.load("en-fr").translate("Where is the station?")
regard.load("hull").point([[0.1, 0.1], [0.9, 0.2], [0.5, 0.5], [0.8, 0.9], [0.2, 0.8]])
regard.load("ntm-copy").run(torch.randint(0, 2, (10, 8)))
regard.load("stories").ask("Anna took the lamp. Anna went to the garden.", "Where is the lamp?")
captions = regard.load("shapes-captions")
captions.caption(captions.example()).save("caption.png")
regard.show(torch.rand(4, 5).softmax(-1), rows=list("abcd"), columns=list("vwxyz")).save("matrix.png")
"""
COMMANDS = (
    'regard translate en-fr "She is eating a green apple."',
    "regard show ntm-copy 60",
    "regard models",
)


def first_screen() -> tuple[list[str], list[str]]:
    """The README's Python and its commands, before the section about building."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Build with it")[0]
    python = "".join(re.findall(r"```python\n(.*?)```", readme, re.DOTALL))
    shell = "".join(re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)).splitlines()
    return lines_of(python), [line for line in shell if line.startswith("regard ")]


def lines_of(source: str) -> list[str]:
    """The statements of some Python."""
    return [ast.get_source_segment(source, node) or "" for node in ast.parse(source).body]


def run_python(lines: list[str]) -> dict[str, float]:
    """Line -> seconds; all in one scope."""
    scope: dict[str, Any] = {}
    took = {}
    for number, line in enumerate(lines):
        started = time.perf_counter()
        exec(compile(line, f"line {number}", "exec"), scope)
        took[line] = took.get(line, 0.0) + time.perf_counter() - started
    return took


def run_commands(lines: list[str]) -> dict[str, float]:
    """Line -> seconds; each runs in its own process, which must succeed."""
    took = {}
    scripts = sysconfig.get_path("scripts")
    for line in lines:
        started = time.perf_counter()
        words = shlex.split(line)
        words[0] = str(Path(scripts, words[0]))
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        took[line] = time.perf_counter() - started
    return took


def brought() -> dict[str, float]:
    """Package -> megabytes on disk, for this environment without pip, torch and torch's packages."""
    there = {plain(found.metadata["Name"]) for found in distributions()}
    of_torch, todo = {"pip"}, ["torch"]
    while todo:
        name = todo.pop()
        if name in there - of_torch:
            of_torch.add(name)
            needed = [line for line in distribution(name).requires or [] if "extra ==" not in line]
            todo += [plain(re.split(r"[^\w.-]", line)[0]) for line in needed]
    sizes: dict[str, float] = {}
    for found in distributions():
        name = plain(found.metadata["Name"])
        if name not in of_torch:
            paths = (Path(str(found.locate_file(file))) for file in found.files or [])
            sizes[name] = round(sum(path.stat().st_size for path in paths if path.is_file()) / 1e6, 1)
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def plain(name: str) -> str:
    """A package's name, normalized for comparison."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Run, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, help="record the total in this folder")
    given = parser.parse_args()
    out = given.out.resolve() if given.out else None
    python, shell = first_screen()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        took = run_python(python + lines_of(MORE))
        took |= run_commands([*shell, *COMMANDS])
        os.chdir(ROOT)
    for line, seconds in took.items():
        print(f"{seconds:7.2f} s  {line.splitlines()[0]}", file=sys.stderr)
    total, sizes = sum(took.values()), brought()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processor = sum(each.ru_utime + each.ru_stime for each in used)
    print(f"{total:7.1f} s in all, {processor:.1f} s of processors")
    print(f"{sum(sizes.values()):.0f} MB beside torch and what torch needs: {sizes}")
    if out is not None:
        record(out, total, processor, took, sizes)
    sys.exit(0 if total < LIMIT else f"more than {LIMIT:.0f} s")


def record(
    out: Path, total: float, processor: float, took: dict[str, float], sizes: dict[str, float]
) -> None:
    """Write results/first-minute.json: the seconds, and what was installed."""
    from dataclasses import replace

    import torch

    from regard.bench.records import measured, versions
    from regard.evaluate.results import commit, write_result

    size = sum(sizes.values())
    packages = {"packages": sizes, "without regard": round(size - sizes["regard"], 1)}
    spent = {
        "seconds": {line: round(seconds, 2) for line, seconds in took.items()},
        "processor seconds": round(processor, 1),
        "threads": torch.get_num_threads(),
        "processes that ran or waited, mean of a minute": round(os.getloadavg()[0], 1),
        "versions": versions(),
    }
    for metric, value, details, note in (
        ("seconds, all lines", total, spent, "under 60 asked for"),
        ("megabytes installed beside torch", size, packages, "120 asked for"),
    ):
        found = measured("first-minute", metric, round(value, 1), seconds=total, details=details, note=note)
        write_result(out, replace(found, commit=commit(__file__)))


if __name__ == "__main__":
    main()

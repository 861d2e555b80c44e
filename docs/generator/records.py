"""What every table is made of: the records of results/, numbers as people write them, Markdown."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.evaluate.results import Result, entries_of, newest, read_results
from regard.evaluate.text import LengthScore

ROOT = Path(__file__).parents[2]
UNMEASURED = "*Not measured yet: `results/` has no record of it. The command above writes one.*"


def in_order(results: Iterable[Result]) -> list[Result]:
    """The newest of these records, in the order that whoever measured them gave."""
    return sorted(newest(results), key=lambda result: result.details["order"])


def benchmark(folder: Path, recipe: str) -> list[Result]:
    """The records of a benchmark."""
    return in_order(result for result in read_results(folder) if result.recipe == recipe)


def rows_of(folder: Path, entry: str) -> list[Result]:
    """The results that belong to one catalogue entry, `kind:key`."""
    return [result for result in newest(read_results(folder)) if entry in entries_of(result)]


# Text -------------------------------------------------------------------------------------------------------


def number(result: Result) -> str:
    """A value as people write it."""
    return f"{result.value:.1f}" if abs(result.value) >= 10 else f"{result.value:.3g}"


def papers(result: Result) -> str:
    """The paper's value, or nothing."""
    return "" if result.paper_value is None else f"{result.paper_value:g}"


def notes(results: Iterable[Result]) -> list[str]:
    """How far the papers' values can be compared, each note once."""
    return sorted({result.paper_note for result in results if result.paper_note})


def short(value: float) -> str:
    """Three digits, or all that stand before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def memory(megabytes: float) -> str:
    """Three digits in megabytes, or gigabytes: 4.03 MB, 8.6 GB."""
    return f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes:.3g} MB"


def words(span: Mapping[str, Any]) -> str:
    """The lengths of a bin, from `low` to `high`: `up to 10`, `11 to 20`, `51 and more`."""
    return LengthScore(span["low"], span["high"], 0, 0.0).words


def place(result: Result) -> str:
    """The GPU where there is one, else the processor, with the threads that were used."""
    parts = result.machine.split(", ")
    gpu = [part for part in parts if part.startswith("NVIDIA")]
    threads = result.details.get("threads")
    count = "" if gpu or threads is None else f", {threads} thread{'s' if threads > 1 else ''}"
    return f"{gpu[0] if gpu else parts[0]}{count}"


# Markdown ---------------------------------------------------------------------------------------------------


def markers(kinds: Iterable[str]) -> re.Pattern[str]:
    """Where a page asks for something of one of these kinds by name: <!-- KIND: NAME -->."""
    return re.compile(rf"<!-- ({'|'.join(kinds)}): ([\w.-]+) -->")


def markdown(header: Sequence[str], body: Iterable[Sequence[str]], sides: str = "lr") -> str:
    """A table. `sides` has l or r, left or right, for each column; the last letter goes for all after it."""
    rules = ["---:" if side == "r" else "---" for side in sides.ljust(len(header), sides[-1])]
    return "\n".join([_line(header), f"|{'|'.join(rules)}|", *(_line(cells) for cells in body)])


def facts(of: Mapping[str, str]) -> str:
    """How something was measured: a table of one line."""
    return recorded(markdown(list(of), [list(of.values())], sides="l"))


def recorded(block: str) -> str:
    """A block of records: it changes with every measurement, so nobody has to translate it."""
    return f"{{.translation-optional}}\n{block}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

"""Measured results as JSON, one file per recipe: the source of every published number."""

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from regard import storage
from regard.errors import DataError
from regard.renamed import ENTRIES

# names of metrics for which lower is better
_LESS_IS_BETTER = re.compile(
    r"error|perplexity|bits|distance|seconds|megabytes|memory|exponent|length, n|\babove\b|slowdown"
    r"|difference|jitter"
)


@dataclass(frozen=True)
class Result:
    """A number, how it was measured, and the paper's value."""

    recipe: str
    metric: str
    value: float
    paper_value: float | None  # None: the paper gives none
    paper_note: str
    seconds: float
    machine: str
    date: str  # ISO 8601
    commit: str | None
    seeds: tuple[int, ...]
    details: dict[str, Any] = field(default_factory=dict)


def write_result(folder: Path | str, result: Result) -> Path:
    """Add a record to `folder/<recipe>.json`, atomically.

    It replaces a record with the same metric, date, machine, commit and seeds.
    """
    if not result.recipe or Path(result.recipe).name != result.recipe or result.recipe.startswith("."):
        raise DataError(f"write_result: `recipe` has {result.recipe!r}; expected a name without a folder.")
    path = Path(folder) / f"{result.recipe}.json"
    records = {_same(record): record for record in _read(path)} if path.exists() else {}
    records[_same(result)] = result
    rows = [asdict(record) for record in sorted(records.values(), key=_same)]
    with storage.whole(path) as file:
        file.write((json.dumps(rows, indent=2, ensure_ascii=False, sort_keys=True) + "\n").encode())
    return path


def packaged() -> Path:
    """The results in the package, or beside it in its repository."""
    package = Path(__file__).parents[1]
    return package / "results" if (package / "results").is_dir() else package.parent / "results"


def newest(results: Iterable[Result]) -> list[Result]:
    """The newest record for each recipe and metric."""
    latest = {(result.recipe, result.metric): result for result in sorted(results, key=lambda r: r.date)}
    return sorted(latest.values(), key=lambda r: (r.recipe, r.metric))


def entries_of(result: Result) -> list[str]:
    """The catalogue entries of a record, `kind:key`, by their current names."""
    return [ENTRIES.get(entry, entry) for entry in result.details.get("catalogue", [])]


def read_results(folder: Path | str) -> list[Result]:
    """Every record of every recipe, sorted by recipe, metric and date."""
    return [result for path in sorted(Path(folder).glob("*.json")) for result in _read(path)]


def best_of_each_metric(results: Iterable[Result]) -> list[Result]:
    """The best record of each metric, in the order of first occurrence."""
    found: dict[str, Result] = {}
    for result in results:
        known = found.get(result.metric)
        sign = -1 if _LESS_IS_BETTER.search(result.metric) else 1
        if known is None or sign * result.value > sign * known.value:
            found[result.metric] = result
    return list(found.values())


def machine() -> str:
    """Processor, cores, accelerator and torch version, in one line."""
    parts = [_processor(), f"{os.cpu_count()} cores"]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    return ", ".join([*parts, f"torch {torch.__version__}"])


def commit(file: Path | str = __file__) -> str | None:
    """The commit of the repository that tracks `file`, with `-dirty` if modified; None if untracked."""
    file = Path(file).resolve()
    # an installed copy may lie inside another repository
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:
        return None
    return _git(file.parent, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def _same(result: Result) -> tuple[str, str, str, str, tuple[int, ...]]:
    return result.metric, result.date, result.machine, result.commit or "", result.seeds


def _read(path: Path) -> list[Result]:
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        return [Result(**(record | {"seeds": tuple(record.get("seeds", ()))})) for record in records]
    except (ValueError, TypeError, AttributeError) as error:
        expected = ", ".join(f.name for f in fields(Result))
        raise DataError(f"results: {path} has no list of records; expected {expected}. {error}") from error


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

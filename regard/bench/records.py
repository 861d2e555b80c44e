"""A benchmark's number as a record for results/: machine, versions, date and commit are filled in here."""

import platform
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from regard.evaluate.results import Result, commit, machine

RATIO = "a ratio in one run on this machine"


def measured(
    recipe: str,
    metric: str,
    value: float,
    *,
    seconds: float,
    details: dict[str, Any],
    note: str = RATIO,
    theory: float | None = None,
    seeds: tuple[int, ...] = (0,),
) -> Result:
    """The record of one number of a benchmark; `theory` stands where a paper's value does."""
    return Result(
        recipe=recipe,
        metric=metric,
        value=value,
        paper_value=theory,
        paper_note=note,
        seconds=round(seconds, 2),
        machine=machine(),
        date=date.today().isoformat(),
        commit=commit(),
        seeds=seeds,
        details=details,
    )


def versions() -> dict[str, str]:
    """Python, and the packages that decide about speed, as far as they are installed."""
    found = {"python": platform.python_version()}
    for package in ("torch", "triton", "entmax"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

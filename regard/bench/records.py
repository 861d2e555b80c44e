"""Records of benchmark results for results/, with machine, versions, date and commit filled in."""

import platform
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

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
    """The record of one benchmark result; `theory` takes the place of a paper's value."""
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


def common(device: str) -> dict[str, Any]:
    """The details common to all records: where they were measured."""
    threads = torch.get_num_threads() if device == "cpu" else None
    return {"device": device, "threads": threads, "versions": versions()}


def short(value: float | None) -> str:
    """A number for a table, with three digits; empty for None."""
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def megabytes(size: int | None) -> str:
    """Bytes as megabytes for a table; empty for None."""
    return short(None if size is None else size / 1e6)


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that affect speed."""
    found = {"python": platform.python_version()}
    for package in ("torch", "triton", "entmax"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

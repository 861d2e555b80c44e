"""A benchmark's number as a record for results/: machine, versions, date and commit are filled in here."""

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


def common(device: str) -> dict[str, Any]:
    """What the details of every record have: where it was measured."""
    threads = torch.get_num_threads() if device == "cpu" else None
    return {"device": device, "threads": threads, "versions": versions()}


def short(value: float | None) -> str:
    """A number of a table, in three digits; empty where there is none."""
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def megabytes(size: int | None) -> str:
    """Bytes as such a number of megabytes."""
    return short(None if size is None else size / 1e6)


def versions() -> dict[str, str]:
    """Python, and the packages that decide about speed, as far as they are installed."""
    found = {"python": platform.python_version()}
    for package in ("torch", "triton", "entmax"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

"""Reads the folders of `regard compare`, also while it runs: trainings, progress and results."""

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.compare.trial import read_impossible
from regard.errors import RegardError
from regard.serve.problems import Problem
from regard.serve.runs import changed, curve, named_folders, read_lines, summary
from regard.train.config import load_run

MOST = 200  # limit for listed comparisons, and for the trainings of each


def list_comparisons(folder: Path) -> list[dict[str, Any]]:
    """All comparisons in a folder, the most recently changed first."""
    found = [_summary(path, list(trainings(path))) for path in named_folders(folder, "configs")]
    return sorted(found, key=lambda about: about["changed"], reverse=True)[:MOST]


def describe_comparison(folder: Path, name: str) -> dict[str, Any]:
    """A comparison with its trainings and their loss curves; it is found by name, never by path."""
    for path in named_folders(folder, "configs"):
        if path.name == name:
            every = list(trainings(path))
            lines = (read_lines(path / "runs" / each["id"], 0)[0] for each in every)
            runs = [each | {"curve": curve(own)} for each, own in zip(every, lines, strict=True)]
            return _summary(path, every) | {"runs": runs}
    raise Problem(404, "unknown_comparison", f"id: has {name[:80]!r}; expected one of /v1/comparisons.")


def _summary(path: Path, every: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": path.name,
        "trainings": len(every),
        "finished": sum(each["value"] is not None for each in every),
        "training": sum(each["status"] == "training" for each in every),
        "changed": max([changed(path), *(each["changed"] for each in every)]),
    }


def trainings(folder: Path) -> Iterator[dict[str, Any]]:
    """The planned trainings in order of name, with progress and results."""
    for config in sorted(folder.glob("configs/*.toml"))[:MOST]:
        name = config.stem
        variant, _, seed = name.rpartition("-seed")
        about = summary(folder / "runs" / name) or _waiting(config)
        if about is not None:
            about |= {"id": name, "variant": variant or name, "seed": int(seed) if seed.isdecimal() else None}
            yield about | _outcome(folder / "runs" / name)


def _waiting(config: Path) -> dict[str, Any] | None:
    """A training that has not started; None if its config cannot be read."""
    try:
        found = load_run(config)
    except (RegardError, OSError):
        return None
    about: dict[str, Any] = {"status": "waiting", "model": found.model, "task": found.task, "step": 0}
    about |= {"steps": found.train.steps, "changed": changed(config)}
    return about | dict.fromkeys(("saved", "loss", "valid_loss", "seconds"))


def _outcome(run: Path) -> dict[str, Any]:
    """The headline of the last evaluation, or why the model cannot be built."""
    made: dict[str, Any] = {"metric": None, "value": None, "reason": None}
    with suppress(OSError, ValueError, KeyError):
        if (reason := read_impossible(run)) is not None:
            return made | {"status": "impossible", "reason": reason[:300]}
        for file in sorted(run.glob("measured-*.json"), key=lambda path: path.stat().st_mtime)[-1:]:
            found = json.loads(file.read_text(encoding="utf-8"))
            value = float(found["value"])
            return made | {"metric": str(found["metric"]), "value": value if math.isfinite(value) else None}
    return made

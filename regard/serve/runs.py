"""The user's runs: found by name in one folder, never by path, also while they train."""

import json
import math
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.lock import FILE, GONE
from regard.models.base import Translating
from regard.serve import limits
from regard.serve.problems import Problem
from regard.serve.wire import matrix
from regard.tasks.translation import TranslationTask
from regard.train.config import load_run
from regard.train.run_folder import RunFolder

NAME = re.compile(r"\w[\w.+@=,-]{0,199}")
MOST = 500  # limit for listed runs
LARGEST = 64_000_000  # limit for reading metrics, in bytes


class Runs:
    """The runs in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def every(self) -> list[dict[str, Any]]:
        """All runs, the most recently changed first."""
        return [about for about in map(summary, self.folders()[:MOST]) if about is not None]

    def find(self, name: str) -> Path:
        """The run with this id; ids are compared with existing names and never used in a path."""
        for folder in self.folders():
            if folder.name == name:
                return folder
        raise Problem(404, "unknown_run", f"id: has {name[:80]!r}; expected a run of /v1/runs.")

    def describe(self, name: str) -> dict[str, Any]:
        """A run with its loss curve."""
        folder = self.find(name)
        about = summary(folder)
        if about is None:
            raise Problem(422, "unreadable", f"id: has {name!r}, whose folder cannot be read.")
        lines, _ = read_lines(folder, 0)
        return about | {"curve": curve(lines)}

    def align(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """The first validation sentence of each run, aligned with its latest weights."""
        folders = [self.find(name) for name in names]
        return [{"alignment": aligned(folder, RunFolder(folder).last_step())} for folder in folders]

    def folders(self) -> list[Path]:
        """All run folders, the most recently changed first."""
        return sorted(named_folders(self.folder, "config.toml"), key=changed, reverse=True)


def named_folders(parent: Path, holding: str) -> list[Path]:
    """Subfolders with a plain name that contain `holding`; symbolic links are skipped."""
    if not parent.is_dir():
        return []
    return [
        path
        for path in parent.iterdir()
        if NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink() and (path / holding).exists()
    ]


@lru_cache(maxsize=32)
def aligned(folder: Path, step: int | None) -> dict[str, Any] | None:
    """An alignment by a translation model after this step; None for other models and unreadable runs."""
    from regard.decode.base import GREEDY
    from regard.decode.translator import Translator
    from regard.train.run import open_run

    with suppress(RegardError, OSError):
        run = open_run(folder, checkpoint="last" if RunFolder(folder).find("last") else None, device="cpu")
        task, model = run.task, run.model
        if isinstance(task, TranslationTask) and isinstance(model, Translating) and model.aligner is not None:
            sentence = task.examples("valid")[0].source
            [[found]] = Translator(model, task.source, task.target).translate([sentence], GREEDY)
            return {
                "step": step or run.step,
                "model": run.config.model,
                "text": found.text,
                "source_words": found.source_pieces,
                "target_words": found.pieces,
                "alignment": matrix(found.weights),
            }
    return None


def summary(folder: Path) -> dict[str, Any] | None:
    """A run as lists show it; None if it cannot be read."""
    run = RunFolder(folder)
    try:
        config = load_run(run.config)
        saved = run.last_step()
        metrics = folder / "metrics.jsonl"
        written = metrics.stat() if metrics.exists() else None
        latest = _latest_numbers(folder, written and (written.st_mtime_ns, written.st_size))
    except (RegardError, OSError):
        return None
    step = max(saved or 0, latest["step"])
    return {
        "id": folder.name,
        "status": status(folder, step, config.train.steps),
        "model": config.model,
        "task": config.task,
        **latest,
        "step": step,
        "steps": config.train.steps,
        "saved": saved,
        "changed": changed(folder),
    }


@lru_cache(maxsize=MOST)
def _latest_numbers(folder: Path, written: tuple[int, int] | None) -> dict[str, Any]:
    """The latest numbers in the metrics. Pages poll this, so the file is read only after it has changed."""
    lines, _ = read_lines(folder, 0)
    losses = [line["loss"] for line in lines if _is_number(line.get("loss")) and "event" not in line]
    seconds = [line["seconds"] for line in lines if _is_number(line.get("seconds"))]
    valid = [line["valid_loss"] for line in lines if _is_number(line.get("valid_loss"))]
    return {
        "step": max((line["step"] for line in lines), default=0),
        "loss": losses[-1] if losses else None,
        "valid_loss": min(valid, default=None),
        "seconds": seconds[-1] if seconds else None,
    }


def status(folder: Path, step: int, steps: int) -> str:
    """training, finished, stopped, or interrupted (the process died).

    The lock itself is not tried: holding it even briefly could prevent a training from starting.
    """
    with suppress(OSError):
        owner = (folder / FILE).stat()
        if owner.st_size:
            return "training" if time.time() - owner.st_mtime < GONE else "interrupted"
    over = False
    with suppress(OSError, ValueError, AttributeError):
        over = bool(json.loads((folder / "checkpoints.json").read_text(encoding="utf-8")).get("over"))
    return "finished" if over or step >= steps or RunFolder(folder).is_packed else "stopped"


def read_lines(folder: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """The complete lines of metrics.jsonl after an offset, and the next offset; from 0 if the file shrank."""
    path = folder / "metrics.jsonl"
    try:
        size = path.stat().st_size
        if path.is_symlink():
            return [], 0
        with path.open("rb") as file:
            file.seek(offset if offset <= size else 0)
            start = file.tell()
            data = file.read(LARGEST)
    except FileNotFoundError:
        return [], 0
    whole = data.rpartition(b"\n")[0]
    lines = []
    for line in whole.split(b"\n"):
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and isinstance(found.get("step"), int):
                lines.append(found)
    return lines, start + len(whole) + (1 if whole else 0)


def curve(lines: Sequence[dict[str, Any]]) -> dict[str, list[list[float]]]:
    """Training and validation loss by step, thinned for display."""
    train = [[line["step"], line["loss"]] for line in lines if _is_number(line.get("loss"))]
    valid = [[line["step"], line["valid_loss"]] for line in lines if _is_number(line.get("valid_loss"))]
    return {"train": _thinned(train), "valid": _thinned(valid)}


def _thinned(points: list[list[float]]) -> list[list[float]]:
    every = -(-len(points) // limits.RUN_POINTS) or 1
    kept = points[::every]
    return kept if not points or kept[-1] is points[-1] else [*kept, points[-1]]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def changed(folder: Path) -> str:
    """When a run was last written to, in a form that sorts chronologically."""
    moment = 0.0
    for name in ("metrics.jsonl", "config.toml", ""):
        with suppress(OSError):
            moment = (folder / name).stat().st_mtime
            break
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))

"""Resolves a name to a folder: a run folder, a shipped model, or one from the Hub."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import catalog, hub
from regard.errors import DataError
from regard.shipped.table import NAMES

FOLDER = Path(__file__).parent
RECORD = "record.json"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
RUNS = "runs"  # where `regard train` writes: runs/x is never a Hub id


SAID = {  # how metrics are worded; for all others the metric comes first
    "accuracy": (100, "% right"),
    "exact": (100, "% exactly right"),
    "above": (100, "% above the shortest"),
    "mean error": (1, "% wrong"),
    "bits per sequence": (1, "bits per sequence"),
}


@dataclass(frozen=True)
class Packed:
    """A packed model, as described by its record."""

    name: str
    folder: Path
    record: dict[str, Any]
    bytes: int

    @property
    def figure(self) -> str:
        """The figure on the test split, in words."""
        return said(self.record["metric"], self.record["value"])


def said(metric: str, value: float) -> str:
    """accuracy at n = 5, 0.938 -> 93.8 % right at n = 5."""
    name, at, where = metric.partition(" at ")
    if name not in SAID:
        return f"{metric} {value:.4g}"
    factor, words = SAID[name]
    return f"{factor * value:.4g} {words}{at}{where}"


def find_run(name: str | Path) -> Path:
    """Resolve a name to a folder: first an existing folder, then a shipped model, then one from the Hub."""
    path = Path(name)
    if path.exists():
        return path
    shipped = names()
    if str(name) in shipped:
        return FOLDER / str(name)
    if HUB_ID.fullmatch(path.as_posix()) and path.parts[0] != RUNS and not path.parent.exists():
        return download(path.as_posix())
    if len(path.parts) > 1 or str(name) in (".", ".."):  # a path that does not exist, not a name
        raise DataError(f"{name}: no such run folder.")
    if str(name) in NAMES:
        train = f"python tools/train_shipped.py {name}"
        raise DataError(f"{name}: this model is not in this copy of regard. Train it: {train}.")
    near = catalog.nearest(str(name), shipped) or next((n for n in shipped if n.startswith(str(name))), None)
    hint = f"Did you mean the model {near!r}?" if near else "`regard models` lists the models that ship."
    raise DataError(f"{name}: no such run folder. {hint}")


def names() -> tuple[str, ...]:
    """The shipped models that are present, in the order of the table."""
    return tuple(name for name in NAMES if (FOLDER / name / RECORD).is_file())


def packed_models() -> list[Packed]:
    """The models that `regard models` lists."""
    return [read_packed(FOLDER / name) for name in names()]


def read_packed(folder: Path) -> Packed:
    """A packed folder's record and size."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Packed(record["name"], folder, record, size)


def is_shipped(folder: Path) -> bool:
    """Whether a folder is inside the package, where nothing may be written."""
    return folder.resolve().parent == FOLDER


def download(name: str) -> Path:
    """Download a model from the Hub (`owner/name`), or find it in the Hub's cache."""
    folder = hub.fetch(name)
    require_system(folder, name)
    return folder


def require_system(folder: Path, name: str) -> None:
    """Raise DataError for a Hub folder that is not a complete system."""
    if (folder / "config.toml").is_file():
        return
    alone = (folder / hub.CONFIG).is_file() and (folder / hub.WEIGHTS).is_file()
    hint = " A model alone is read by its class: RNNsearch.from_pretrained(…)." if alone else ""
    raise DataError(f"{name}: this model of the Hub has no config.toml; expected one packed by regard.{hint}")

"""The run folder: atomic writes, exact resumption, no pickle.

    config.toml              the resolved config; written last, so its presence makes the folder a run
    format.json              {"format": 1, "regard": "0.1.0"}
    …                        what the task saves (tokenizers)
    digests.json             SHA-256 of the files above
    changes.jsonl            one line per setting that a resumed run changed
    metrics.jsonl            one line per measurement; tensorboard/ holds the same
    owner.json               which process trains into the folder; empty if none does (lock.py)
    checkpoints.json         {"last": "step-00000400", "before": "step-00000200", "best": "step-00000300"}
                             and their digest; "over": only weights are kept
    checkpoints/             the folders that these names point to
        step-00000400/       {model,optimizer,random}.safetensors  state.json  digests.json
        step-00000200/       the same: the fallback if the last is damaged
        step-00000300/       model.safetensors  state.json  digests.json
        averaged-00000400/   the same; with `train.average`, once the run is over

A packed run (shipped/pack.py) has one set of weights and no checkpoints/: model.safetensors, perhaps in int8
or bfloat16, and state.json lie beside config.toml.
"""

import json
import shutil
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, DataError
from regard.tasks.base import Task
from regard.train import durable, toml
from regard.train.checkpoint import Checkpoints
from regard.train.config import RunConfig, fill_defaults, parse, translate
from regard.train.verified_files import DIGESTS, digest, digest_of_file

FORMAT = 1
UNLEARNT = ("train.log_every", "train.checkpoint_every", "train.threads")  # no effect on the weights
LEARNT = ("train.steps", "train.lr", "train.clip", "train.on_nonfinite")  # may change when a run is resumed


class RunFolder(Checkpoints):
    """One run on disk: its config, the task's files and its checkpoints."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.config = self.path / "config.toml"

    def require_new(self) -> None:
        """Raise DataError if the folder already holds a run."""
        if self.config.exists():
            raise DataError(
                f"{self.path}: already holds a run; continue it with --resume, or choose another folder."
            )

    def require_run(self) -> None:
        """Raise DataError if the folder holds no run, or one of a later format."""
        if not self.path.is_dir():
            raise DataError(f"{self.path}: no such run folder.")
        if (self.path / "export.json").exists():
            raise DataError(f"{self.path}: an export, which can only translate; expected a run folder.")
        if not self.config.exists():
            raise DataError(f"{self.path}: not a run folder: config.toml is missing.")
        found = self.read_json(self.path / "format.json").get("format")
        if not isinstance(found, int):
            raise DataError(f"{self.path}: format.json has no format number; the run cannot be read.")
        if found > FORMAT:
            newer = f"format {found} is newer than this regard understands ({FORMAT})"
            raise DataError(f"{self.path}: {newer}; update regard.")
        if (self.path / DIGESTS).exists():
            for name in self.read_json(self.path / DIGESTS):
                self.require_whole(self.path, name)

    def create(self, config: RunConfig, task: Task) -> None:
        """Make the folder a run. The config is written last: without it, the folder still counts as free."""
        with self.disk_errors():
            self.path.mkdir(parents=True, exist_ok=True)
            digests = self._save_task(task)
            known = json.dumps({"format": FORMAT, "regard": _version()}) + "\n"
            durable.replace(self.path / "format.json", known)
            text = _resolved(config)
            digests |= {"format.json": [digest(known)], "config.toml": [digest(text)]}
            durable.replace(self.path / DIGESTS, json.dumps(digests, indent=1) + "\n")
            durable.replace(self.config, text)

    def _save_task(self, task: Task) -> dict[str, list[str]]:
        """Let the task write its files to a temporary folder, move them here, and return their digests."""
        aside = self.path / ".writing-task"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        task.save(aside)
        durable.sync_tree(aside)
        files = sorted(path.relative_to(aside) for path in aside.rglob("*") if path.is_file())
        digests = {file.as_posix(): [digest_of_file(aside / file)] for file in files}
        for file in files:
            (self.path / file).parent.mkdir(parents=True, exist_ok=True)
            (aside / file).replace(self.path / file)
        shutil.rmtree(aside)
        durable.sync_folder(self.path)
        return digests

    def update_config(self, config: RunConfig) -> None:
        """Store the config of a resumed run if it changed, and record the changes."""
        before, now = self.config.read_text(encoding="utf-8"), _resolved(config)
        if before == now:
            return
        with self.disk_errors():
            self.record_changes(self._changed(config))
            if (self.path / DIGESTS).exists():
                digests = self.read_json(self.path / DIGESTS)
                digests["config.toml"] = [digest(now), digest(before)]  # either may be there after a crash
                durable.replace(self.path / DIGESTS, json.dumps(digests, indent=1) + "\n")
            durable.replace(self.config, now)

    def record_changes(self, changed: Mapping[str, tuple[Any, Any]]) -> None:
        """Append the settings that differ from now on to changes.jsonl: key -> (old, new)."""
        path, now = self.path / "changes.jsonl", f"{datetime.now():%Y-%m-%d %H:%M:%S}"
        lines = [
            {"step": self.last_step() or 0, "key": key, "was": was, "is": given, "date": now}
            for key, (was, given) in changed.items()
        ]
        earlier = path.read_text(encoding="utf-8") if path.exists() else ""
        durable.replace(path, earlier + "".join(json.dumps(line) + "\n" for line in lines))

    def require_same(
        self, config: RunConfig, *, may_change: tuple[str, ...] = UNLEARNT + LEARNT
    ) -> dict[str, tuple[Any, Any]]:
        """Raise ConfigError if a key outside `may_change` differs; returns all changes: key -> (old, new)."""
        changed = self._changed(config)
        for key, (was, given) in changed.items():
            if key not in may_change:
                started = f"the run was started with {was!r}"
                raise ConfigError(f"{self.path}: '{key}' is {given!r}; {started}. Use another folder.")
        return changed

    def _changed(self, config: RunConfig) -> dict[str, tuple[Any, Any]]:
        tables = translate(parse(str(self.config), self.config.read_text(encoding="utf-8")))
        stored, given = _flat(fill_defaults(tables)), _flat(fill_defaults(config.tables()))
        keys = dict.fromkeys([*given, *stored])
        return {k: (stored.get(k), given.get(k)) for k in keys if stored.get(k) != given.get(k)}


def _resolved(config: RunConfig) -> str:
    return toml.dumps(fill_defaults(config.tables()))


def _flat(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """'table.key' -> value as TOML returns it: tuples as lists, None omitted."""
    return {
        f"{table}.{key}": list(value) if isinstance(value, tuple) else value
        for table, values in tables.items()
        for key, value in values.items()
        if value is not None
    }


def _version() -> str:
    try:
        return version("regard")
    except PackageNotFoundError:  # a checkout that was never installed
        return "unknown"

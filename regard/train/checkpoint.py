"""The run folder: written atomically, resumed exactly, read without pickle.

    config.toml              the resolved config; written last, so its presence makes the folder a run
    format.json              {"format": 1, "regard": "0.1.0"}
    …                        what the task saves beside (tokenizers)
    metrics.jsonl            one line per measurement; tensorboard/ holds the same
    checkpoints.json         {"last": "step-00000400", "best": "step-00000300"}; "over": only weights are kept
    checkpoints/             the folders that these names point to
        step-00000400/       model.safetensors  optimizer.safetensors  random.safetensors  state.json
        step-00000300/       model.safetensors  state.json
        averaged-00000400/   model.safetensors  state.json; with `train.average`, when the run is over

A folder cannot replace another in one step, but a small file can. So a checkpoint is written aside, synced,
and renamed to an unused name; then `checkpoints.json` is replaced, which moves all names at once; then what
they no longer name is removed. A process killed at any moment leaves the names on complete checkpoints.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
from safetensors import SafetensorError
from torch import nn

from regard.catalog import suggest
from regard.errors import ConfigError, DataError
from regard.tasks.base import Task
from regard.train import average, durable, states, toml
from regard.train.config import RunConfig, fill_defaults, parse

FORMAT = 1
MAY_CHANGE = ("train.steps", "train.log_every", "train.checkpoint_every", "train.threads")
_RESUME_ONLY = ("optimizer.safetensors", "random.safetensors")  # of use to `last` alone
Name = Literal["last", "best", "averaged"]
NAMES: tuple[Name, ...] = ("last", "best", "averaged")


@dataclass
class State:
    """Where a run stands: the numbers of state.json."""

    step: int = 0  # updates done, skipped ones included
    epoch: int = 0
    position: int = 0  # batches of the epoch's plan that were used
    processes: int = 1  # the plan and the random states are theirs
    evaluated: int = 0  # the last step whose validation loss is known
    best_loss: float | None = None
    best_step: int | None = None
    stale: int = 0  # evaluations since the best
    skipped: int = 0  # updates that were not finite
    skipped_in_row: int = 0
    seconds: float = 0.0  # since the start, pauses between resumed runs left out
    training_seconds: float = 0.0  # of these, spent in updates
    units: float = 0.0  # predicted units (tokens) seen
    window_total: float = 0.0  # loss since the last line of metrics
    window_count: float = 0.0
    window_seconds: float = 0.0
    window_players: dict[str, tuple[float, float]] = field(default_factory=dict)  # loss and units of each
    train_loss: float | None = None  # of the last line of metrics
    metrics_size: int = 0  # bytes of metrics.jsonl that belong to this checkpoint


@dataclass(frozen=True)
class Checkpoint:
    """Everything that a run needs to go on as if it had never stopped."""

    state: State
    model: states.Tensors
    optimizer: states.Tensors
    random: states.Tensors  # one row per process
    numbers: dict[str, Any] = field(
        default_factory=dict
    )  # what the optimizer and the loss scaler keep as numbers


class RunFolder:
    """One run on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.toml"
        self.checkpoints = self.path / "checkpoints"
        self.names = self.path / "checkpoints.json"

    def require_new(self) -> None:
        """Refuse a folder that already holds a run."""
        if self.config.exists():
            raise DataError(
                f"{self.path}: holds a run already; go on with --resume, or choose another folder."
            )

    def require_run(self) -> None:
        """Refuse a folder that holds no run, or one of a later format."""
        if not self.path.is_dir():
            raise DataError(f"{self.path}: no such run folder.")
        if (self.path / "export.json").exists():
            raise DataError(f"{self.path}: an export, which can only translate; expected a run folder.")
        if not self.config.exists():
            raise DataError(f"{self.path}: not a run folder: config.toml is missing.")
        found = self._read_json(self.path / "format.json").get("format")
        if not isinstance(found, int):
            raise DataError(f"{self.path}: format.json has no format number; the run cannot be read.")
        if found > FORMAT:
            newer = f"format {found} is newer than this regard understands ({FORMAT})"
            raise DataError(f"{self.path}: {newer}; update regard.")

    def create(self, config: RunConfig, task: Task) -> None:
        """Make the folder a run. The config comes last: without it, the folder is still free."""
        with durable.disk_errors(self.path, self.describe_last):
            self.path.mkdir(parents=True, exist_ok=True)
            durable.replace(
                self.path / "format.json", json.dumps({"format": FORMAT, "regard": _version()}) + "\n"
            )
            task.save(self.path)
            durable.sync_tree(self.path)
            durable.replace(self.config, _resolved(config))

    def update_config(self, config: RunConfig) -> None:
        """Store the config of a resumed run where one of the few changeable keys differs."""
        if self.config.read_text(encoding="utf-8") != _resolved(config):
            with durable.disk_errors(self.path, self.describe_last):
                durable.replace(self.config, _resolved(config))

    def require_same(self, config: RunConfig) -> None:
        """Refuse to go on with another config, except for the keys that change nothing learned so far."""
        tables = parse(str(self.config), self.config.read_text(encoding="utf-8"))
        stored, given = _flat(fill_defaults(tables)), _flat(fill_defaults(config.tables()))
        for key in [*given, *(key for key in stored if key not in given)]:
            if key not in MAY_CHANGE and stored.get(key) != given.get(key):
                was = f"the run was started with {stored.get(key)!r}"
                raise ConfigError(f"{self.path}: '{key}' is {given.get(key)!r}; {was}. Use another folder.")

    def find(self, name: Name) -> Path | None:
        """The folder of the checkpoint of this name; None where there is none yet."""
        if not self.names.exists():
            return None
        folder = self._read_json(self.names).get(name)
        return self.checkpoints / folder if folder else None

    def require(self, name: Name) -> Path:
        """The folder of a checkpoint, or an error that says what to do."""
        if name not in NAMES:
            raise DataError(f"{self.path}: unknown checkpoint {name!r}; {suggest(name, NAMES)}")
        folder = self.find(name)
        if folder is None and name == "averaged":
            raise DataError(f"{self.path}: nothing was averaged; train with train.average, or use 'best'.")
        if folder is None:
            raise DataError(f"{self.path}: no checkpoint is complete; train again or go on with --resume.")
        return folder

    def save(self, checkpoint: Checkpoint, *, best: bool) -> None:
        """Write a checkpoint aside, then move the name `last` to it, and `best` if it is."""
        aside = self.checkpoints / f".writing-{checkpoint.state.step}"
        with durable.disk_errors(self.path, self.describe_last):
            try:
                self._write(checkpoint, aside)
                folder = self._unused(checkpoint.state.step)
                aside.rename(folder)
                durable.sync_folder(self.checkpoints)
                self._name(folder, best=best)
            finally:
                shutil.rmtree(aside, ignore_errors=True)  # gone already, unless something failed
        self._prune()

    def save_averaged(self, model: states.Tensors, step: int) -> None:
        """Write averaged weights, made at this step, and give them their name; a second time does nothing."""
        found = self.find("averaged")
        if found is not None and self._read_json(found / "state.json")["step"] == step:
            return
        folder, aside = self.checkpoints / f"averaged-{step:08d}", self.checkpoints / ".writing-averaged"
        with durable.disk_errors(self.path, self.describe_last):
            try:
                shutil.rmtree(aside, ignore_errors=True)
                aside.mkdir(parents=True)
                durable.write(aside / "model.safetensors", safetensors.torch.save(model))
                durable.write(aside / "state.json", (json.dumps({"step": step}) + "\n").encode("utf-8"))
                durable.sync_folder(aside)
                shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed before it named it
                aside.rename(folder)
                durable.sync_folder(self.checkpoints)
                names = self._read_json(self.names)
                durable.replace(self.names, json.dumps(names | {"averaged": folder.name}) + "\n")
            finally:
                shutil.rmtree(aside, ignore_errors=True)

    def load(self) -> Checkpoint | None:
        """The last checkpoint; None where the run was stopped before its first."""
        folder = self.find("last")
        if folder is None:
            return None
        if self._read_json(self.names).get("over"):
            raise DataError(f"{self.path}: the run is over and only its weights were kept; it cannot go on.")
        stored = self._read_json(folder / "state.json")
        numbers = stored.pop("numbers", {})
        known = {entry.name for entry in fields(State)}
        return Checkpoint(
            state=State(**{key: value for key, value in stored.items() if key in known}),
            model=self._read_tensors(folder / "model.safetensors"),
            optimizer=self._read_tensors(folder / "optimizer.safetensors"),
            random=self._read_tensors(folder / "random.safetensors"),
            numbers=numbers,
        )

    def keep_weights(self) -> None:
        """Of a run that is over, keep the best weights, or the last where none is best, and the averaged."""
        kept, averaged = self.find("best") or self.require("last"), self.find("averaged")
        names = {"last": kept.name, "best": kept.name, "over": True}
        names |= {} if averaged is None else {"averaged": averaged.name}
        durable.replace(self.names, json.dumps(names) + "\n")
        self._prune()
        shutil.rmtree(self.path / average.FOLDER, ignore_errors=True)
        for name in _RESUME_ONLY:
            (kept / name).unlink(missing_ok=True)

    def load_model(self, model: nn.Module, name: Name) -> int:
        """Fill a model from the checkpoint of this name; its step."""
        folder = self.require(name)
        self.fill(model, self._read_tensors(folder / "model.safetensors"))
        return int(self._read_json(folder / "state.json")["step"])

    def fill(self, model: nn.Module, tensors: states.Tensors) -> None:
        """Fill a model with weights, which must be those of its config."""
        try:
            states.load_weights(model, tensors)
        except ValueError as error:
            raise DataError(f"{self.path}: the weights do not fit the model: {error}") from error

    def last_step(self) -> int | None:
        folder = self.find("last")
        return int(folder.name.split("-")[1]) if folder else None

    def describe_last(self) -> str:
        step = self.last_step()
        return "no checkpoint is complete" if step is None else f"the last complete checkpoint is step {step}"

    def _write(self, checkpoint: Checkpoint, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)  # a process that was killed may have left it
        folder.mkdir(parents=True)
        for name in ("model", "optimizer", "random"):
            tensors = getattr(checkpoint, name)
            durable.write(folder / f"{name}.safetensors", safetensors.torch.save(tensors))
        numbers = asdict(checkpoint.state) | {"numbers": checkpoint.numbers}
        durable.write(folder / "state.json", (json.dumps(numbers, indent=1) + "\n").encode("utf-8"))
        durable.sync_folder(folder)

    def _unused(self, step: int) -> Path:
        folder = self.checkpoints / f"step-{step:08d}"
        again = 1
        while folder.exists():  # this step was saved before, and its name may be in use
            again += 1
            folder = self.checkpoints / f"step-{step:08d}-{again}"
        return folder

    def _name(self, folder: Path, *, best: bool) -> None:
        names = self._read_json(self.names) if self.names.exists() else {}
        names.pop("averaged", None)  # of a run that was over, and goes on
        names["last"] = folder.name
        if best:
            names["best"] = folder.name
        durable.replace(self.names, json.dumps(names) + "\n")

    def _prune(self) -> None:
        """Remove what no name points to, and of the best checkpoint what only resuming needs."""
        last, best = self.find("last"), self.find("best")
        for path in self.checkpoints.iterdir():
            if path not in (last, best, self.find("averaged")):
                shutil.rmtree(path, ignore_errors=True)
        if best is not None and best != last:
            for name in _RESUME_ONLY:
                (best / name).unlink(missing_ok=True)

    def _read_json(self, path: Path) -> dict[str, Any]:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path}: {self._inside(path)} cannot be read: {_reason(error)}.") from error
        if not isinstance(content, dict):
            raise DataError(f"{self.path}: {self._inside(path)} cannot be read: not a JSON object.")
        return content

    def _read_tensors(self, path: Path) -> states.Tensors:
        try:
            return dict(safetensors.torch.load_file(path))
        except (OSError, SafetensorError) as error:
            raise DataError(f"{self.path}: {self._inside(path)} cannot be read: {_reason(error)}.") from error

    def _inside(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()


def _resolved(config: RunConfig) -> str:
    return toml.dumps(fill_defaults(config.tables()))


def _flat(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """'table.key' -> value as TOML gives it back: lists for tuples, nothing for None."""
    return {
        f"{table}.{key}": list(value) if isinstance(value, tuple) else value
        for table, values in tables.items()
        for key, value in values.items()
        if value is not None
    }


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _version() -> str:
    try:
        return version("regard")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "unknown"

"""Checkpoints of a run, and the names `last`, `before`, `best` and `averaged` that point to them.

A folder cannot be replaced atomically, but a small file can. So a checkpoint is written to a temporary
folder, synced, and renamed to an unused name; then `checkpoints.json` is replaced, which moves all names at
once; then unnamed checkpoints are removed. A process killed at any moment leaves the names on complete
checkpoints. If `checkpoints.json` is missing or damaged, they are reconstructed from the folders.
"""

import errno
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
from torch import nn

from regard.catalog import suggest
from regard.errors import DataError
from regard.train import average, durable, quantization, serialization
from regard.train.verified_files import VerifiedFiles, digest

WEIGHTS = "model.safetensors"
_RESUME_ONLY = ("optimizer.safetensors", "random.safetensors")  # needed by `last` and `before` only
_FOLDER = re.compile(r"(step|averaged)-(\d{8,})(-\d+)?")
Name = Literal["last", "best", "averaged"]
NAMES: tuple[Name, ...] = ("last", "best", "averaged")
_POINTERS = (*NAMES, "before")


@dataclass
class State:
    """The state of a run: the numbers in state.json."""

    step: int = 0  # updates, including skipped ones
    epoch: int = 0
    position: int = 0  # batches of the epoch's plan that were used
    learnt: int = 0  # epochs before it whose loss came down to what the task waits for
    epoch_total: float = 0.0  # loss of the epoch's updates
    epoch_count: float = 0.0
    processes: int = 1  # the plan and the random states are theirs
    evaluated: int = 0  # the last step with a known validation loss
    best_loss: float | None = None
    best_step: int | None = None
    stale: int = 0  # evaluations since the best one
    skipped: int = 0  # updates that were not finite
    skipped_in_row: int = 0
    seconds: float = 0.0  # since the start, without pauses between resumed runs
    training_seconds: float = 0.0  # of these, time spent in updates
    units: float = 0.0  # predicted units (tokens) seen
    window_total: float = 0.0  # loss since the last line of metrics
    window_count: float = 0.0
    window_seconds: float = 0.0
    window_players: dict[str, tuple[float, float]] = field(default_factory=dict)  # loss and units of each
    train_loss: float | None = None  # on the last line of metrics
    metrics_size: int = 0  # bytes of metrics.jsonl that belong to this checkpoint


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to continue as if it had never stopped."""

    state: State
    model: serialization.Tensors
    optimizer: serialization.Tensors
    random: serialization.Tensors  # one row per process
    numbers: dict[str, Any] = field(default_factory=dict)  # non-tensor state of optimizer and loss scaler


class Checkpoints(VerifiedFiles):
    """The checkpoints of a run folder, or the weights of a packed run."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.checkpoints = self.path / "checkpoints"
        self.names = self.path / "checkpoints.json"
        self.fault = ""  # message about a damaged checkpoint that `load` skipped
        self._current: Path | None = None  # the last one loaded or saved

    @property
    def is_packed(self) -> bool:
        """Whether the folder holds only weights, next to the config."""
        return (self.path / WEIGHTS).is_file()

    def find(self, name: Name | Literal["before"]) -> Path | None:
        """The folder of the checkpoint with this name; None if there is none yet."""
        if self.is_packed:
            return self.path if name in ("last", "best") else None
        folder = self._read_names().get(name)
        if not folder:
            return None
        if (self.checkpoints / folder).is_symlink():
            raise DataError(f"{self.path}: checkpoints/{folder} is a symbolic link; expected a folder.")
        return self.checkpoints / folder

    def require(self, name: Name) -> Path:
        """The folder of the checkpoint with this name; if there is none, the error says what to do."""
        if name not in NAMES:
            raise DataError(f"{self.path}: unknown checkpoint {name!r}; {suggest(name, NAMES)}")
        folder = self.find(name)
        if folder is None and name == "averaged":
            raise DataError(f"{self.path}: nothing was averaged; train with train.average, or use 'best'.")
        if folder is None:
            raise DataError(
                f"{self.path}: no checkpoint is complete; train again, or continue with --resume."
            )
        return folder

    def save(self, checkpoint: Checkpoint, *, best: bool) -> None:
        """Write a checkpoint, then point `last` to it, and `best` too if it is the best."""
        numbers = asdict(checkpoint.state) | {"numbers": checkpoint.numbers}
        names = ("model", "optimizer", "random")
        tensors = {f"{name}.safetensors": getattr(checkpoint, name) for name in names}
        with self.disk_errors():
            folder = self._unused(checkpoint.state.step)
            self._write(folder, tensors, numbers)
            self._point_names_to(folder, best=best)
        self._prune()

    def save_averaged(self, model: serialization.Tensors, step: int) -> None:
        """Write the weights averaged at this step and name them; a no-op the second time."""
        found = self.find("averaged")
        if found is not None and self.read_json(found / "state.json")["step"] == step:
            return
        folder = self.checkpoints / f"averaged-{step:08d}"
        with self.disk_errors():
            self._write(folder, {WEIGHTS: model}, {"step": step})
            self._write_names(self._read_names() | {"averaged": folder.name})

    def load(self) -> Checkpoint | None:
        """The last checkpoint, or the one before if it is damaged; None if there is none yet."""
        if self.is_packed or self._read_names().get("over"):
            raise DataError(
                f"{self.path}: the run is finished and only its weights were kept; it cannot be continued."
            )
        faults = []
        for folder in filter(None, (self.find("last"), self.find("before"))):
            try:
                checkpoint = self._load(folder)
            except DataError as error:
                faults.append(error)
                continue
            self._current = folder
            if faults:
                self.fault = f"{faults[0]} The run goes on from step {checkpoint.state.step}, saved before."
            return checkpoint
        if faults:
            raise faults[0]
        return None

    def _load(self, folder: Path) -> Checkpoint:
        stored = self.read_json(folder / "state.json")
        numbers = stored.pop("numbers", {})
        known = {entry.name for entry in fields(State)}
        return Checkpoint(
            state=State(**{key: value for key, value in stored.items() if key in known}),
            model=self.read_tensors(folder / WEIGHTS),
            optimizer=self.read_tensors(folder / "optimizer.safetensors"),
            random=self.read_tensors(folder / "random.safetensors"),
            numbers=numbers,
        )

    def keep_weights(self) -> None:
        """Reduce a finished run to its weights: the best (or the last if none is best), and the averaged."""
        kept, averaged = self.find("best") or self.require("last"), self.find("averaged")
        names = {"last": kept.name, "best": kept.name, "over": True}
        names |= {} if averaged is None else {"averaged": averaged.name}
        self._write_names(names)
        self._prune()
        shutil.rmtree(self.path / average.FOLDER, ignore_errors=True)
        for name in _RESUME_ONLY:
            (kept / name).unlink(missing_ok=True)

    def load_model(self, model: nn.Module, name: Name) -> int:
        """Load the checkpoint with this name into a model; its step."""
        folder = self.require(name)
        self.fill(model, quantization.decode(self.read_tensors(folder / WEIGHTS)))
        return int(self.read_json(folder / "state.json").get("step", 0))

    def fill(self, model: nn.Module, tensors: serialization.Tensors) -> None:
        """Load weights into a model; they must fit its config."""
        try:
            serialization.load_weights(model, tensors)
        except ValueError as error:
            raise DataError(f"{self.path}: the weights do not fit the model: {error}") from error

    def last_step(self) -> int | None:
        folder = None if self.is_packed else self.find("last")
        return _step(folder) if folder else None

    def describe_last(self) -> str:
        step = self.last_step()
        return "no checkpoint is complete" if step is None else f"the last complete checkpoint is step {step}"

    @contextmanager
    def disk_errors(self) -> Iterator[None]:
        """Turn a disk error (full, not writable) into a DataError that says what can still be used."""
        try:
            yield
        except OSError as error:
            reason = f"cannot be written: {error.strerror or error}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                reason = "no space left on the device"
            raise DataError(f"{self.path}: {reason}; {self.describe_last()}.") from error

    def _write(
        self, folder: Path, tensors: Mapping[str, serialization.Tensors], numbers: Mapping[str, Any]
    ) -> None:
        """Write the files of a checkpoint to a temporary folder, and rename it."""
        files = {name: safetensors.torch.save(values) for name, values in tensors.items()}
        files["state.json"] = (json.dumps(numbers, indent=1) + "\n").encode("utf-8")
        aside = self.checkpoints / f".writing-{folder.name}"
        try:
            shutil.rmtree(aside, ignore_errors=True)  # a killed process may have left it
            aside.mkdir(parents=True)
            self.write_files(aside, files)
            shutil.rmtree(folder, ignore_errors=True)  # left by a process killed before it named the folder
            aside.rename(folder)
            durable.sync_folder(self.checkpoints)
        finally:
            shutil.rmtree(aside, ignore_errors=True)  # already renamed, unless something failed

    def _unused(self, step: int) -> Path:
        folder = self.checkpoints / f"step-{step:08d}"
        again = 1
        while folder.exists():  # this step was saved before, and its folder may be in use
            again += 1
            folder = self.checkpoints / f"step-{step:08d}-{again}"
        return folder

    def _point_names_to(self, folder: Path, *, best: bool) -> None:
        names = self._read_names()
        names.pop("averaged", None)  # from a finished run that is now continued
        before = self._current.name if self._current is not None else names.get("last")
        names["last"] = folder.name
        if before and before != folder.name:
            names["before"] = before
        if best:
            names["best"] = folder.name
        elif self.fault and not self._is_usable(self.find("best")):
            names.pop("best", None)
        self._write_names(names)
        self._current = folder

    def _is_usable(self, folder: Path | None) -> bool:
        """Whether the weights of a checkpoint match their digest."""
        try:
            return folder is not None and bool(self.read_tensors(folder / WEIGHTS))
        except DataError:
            return False

    def _write_names(self, names: Mapping[str, Any]) -> None:
        durable.replace(self.names, json.dumps({**names, "digest": _digest_of_names(names)}) + "\n")

    def _read_names(self) -> dict[str, Any]:
        """The contents of checkpoints.json; if it is missing or damaged, what the folders say."""
        try:
            names = self.read_json(self.names)
        except DataError:
            return self._rebuild_names()
        digest = names.pop("digest", None)  # missing in earlier versions
        if digest not in (None, _digest_of_names(names)) or not names.keys() <= {*_POINTERS, "over"}:
            return self._rebuild_names()
        for name in _POINTERS:
            if name in names and not _FOLDER.fullmatch(str(names[name])):
                raise DataError(
                    f"{self.path}: checkpoints.json names {names[name]!r}; expected a folder of checkpoints/."
                )
        return names

    def _rebuild_names(self) -> dict[str, Any]:
        """Reconstruct the names from the complete checkpoints and their steps."""
        whole = [path for path in self._folders() if (path / "state.json").exists()]
        steps = [path for path in whole if path.name.startswith("step-")]
        full = [path for path in steps if all((path / name).exists() for name in _RESUME_ONLY)]
        if not full:  # only weights were kept
            return {"last": steps[-1].name, "best": steps[-1].name, "over": True} if steps else {}
        names = _last_of("last", full) | _last_of("before", full[:-1])
        with suppress(DataError):
            best = self.read_json(full[-1] / "state.json").get("best_step")
            names |= _last_of("best", [path for path in steps if _step(path) == best])
        names |= _last_of("averaged", [path for path in whole if path.name.startswith("averaged-")])
        return names

    def _folders(self) -> list[Path]:
        """The checkpoint folders, earlier ones first."""
        if not self.checkpoints.is_dir():
            return []
        found = [path for path in self.checkpoints.iterdir() if _FOLDER.fullmatch(path.name)]
        folders = [path for path in found if path.is_dir() and not path.is_symlink()]
        return sorted(folders, key=lambda path: [int(number) for number in path.name.split("-")[1:]])

    def _prune(self) -> None:
        """Remove unnamed checkpoints, and from the best one what only resuming needs."""
        last, before, best = self.find("last"), self.find("before"), self.find("best")
        left = [path for path in self.checkpoints.glob(".writing-*") if not path.is_symlink()]
        for path in self._folders() + left:
            if path not in (last, before, best, self.find("averaged")):
                shutil.rmtree(path, ignore_errors=True)
        if best is not None and best not in (last, before):
            for name in _RESUME_ONLY:
                (best / name).unlink(missing_ok=True)


def _digest_of_names(names: Mapping[str, Any]) -> str:
    return digest(json.dumps(dict(names), sort_keys=True))


def _step(folder: Path) -> int:
    return int(folder.name.split("-")[1])


def _last_of(name: str, folders: list[Path]) -> dict[str, Any]:
    return {name: folders[-1].name} if folders else {}

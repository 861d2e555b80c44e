"""The served models: found by name, loaded on first use, each with a worker.

Models named at the start come first, followed by the user's runs that have saved weights, by id; a run that
is still training is reloaded after it has saved again.
"""

import logging
import threading
import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard import catalog
from regard.errors import DataError, RegardError
from regard.serve.batching import Worker
from regard.serve.limits import Pace, limits_of
from regard.serve.metrics import Metrics
from regard.serve.problems import Problem, unknown_model
from regard.serve.runs import Runs
from regard.serve.work import KINDS, compute
from regard.shipped.find import RECORD, find_run, read_packed
from regard.systems.loading import load, refuse_export, system_of
from regard.systems.system import System
from regard.tasks.ntm import AssociativeRecallTask, CopyTask
from regard.train.config import RunConfig, load_run
from regard.train.run_folder import RunFolder

log = logging.getLogger("regard.serve")

OWN = 12  # how many of the user's runs are served


@dataclass(eq=False)
class Served:
    """A served model; `system` is None until it is loaded."""

    name: str
    folder: Path
    kind: str
    about: dict[str, Any]
    step: int | None = None  # of a run's latest weights
    worker: Worker = field(init=False)
    system: System | None = None
    loaded: int | None = None  # the step of the loaded weights

    def describe(self, pace: Pace) -> dict[str, Any]:
        about = {"name": self.name, "kind": self.kind, **self.about, "step": self.step}
        return about | {"limits": limits_of(self.kind, pace)}


class Models:
    """All served models, by name."""

    def __init__(
        self,
        names: Iterable[str],
        pace: Pace,
        metrics: Metrics,
        *,
        runs: Runs | None = None,
        device: str | None = None,
    ) -> None:
        self.pace, self.metrics, self.runs, self.device = pace, metrics, runs, device
        self._loading, self._looking = threading.Lock(), threading.Lock()
        self.ready = True  # no models are left to preload
        self._named: dict[str, Served] = {}
        self._own: dict[str, Served] = {}
        for name in names:
            served = self._with_worker(find_model(find_run(name)))
            if served.name in self._named:
                raise DataError(f"serve: `NAME` has {served.name!r} twice; expected other names.")
            self._named[served.name] = served

    def __iter__(self) -> Iterator[Served]:
        """The models named at the start."""
        return iter(self._named.values())

    def describe(self) -> list[dict[str, Any]]:
        """The content of /v1/models."""
        return [served.describe(self.pace) for served in (*self, *self.own())]

    def own(self) -> list[Served]:
        """The user's runs with weights, the most recently changed first."""
        with self._looking:
            found = dict(self._find_runs())
            for name, served in self._own.items():
                if name not in found:
                    served.worker.stop(0.0)
            self._own = found
            return list(found.values())

    def _find_runs(self) -> Iterator[tuple[str, Served]]:
        for folder in [] if self.runs is None else self.runs.folders()[:OWN]:
            with suppress(RegardError, OSError):
                step = RunFolder(folder).last_step()
                if step is not None and folder.name not in self._named:
                    served = self._own.get(folder.name) or self._with_worker(find_model(folder))
                    served.step = step
                    yield folder.name, served

    def find(self, name: str, kind: str) -> Served:
        """The model with this name and kind; `Problem` if there is none."""
        served = self._named.get(name) or next((each for each in self.own() if each.name == name), None)
        if served is None:
            raise unknown_model(name, [each.name for each in self if each.kind == kind])
        if served.kind != kind:
            wanted = f"model: {name!r} is for {served.kind!r}; expected one for {kind!r}."
            raise Problem(422, "wrong_kind", wanted)
        return served

    def load(self, served: Served) -> System:
        """The system of a model. Models load one at a time; loaded models do not wait for that."""
        if served.system is None or served.loaded != served.step:
            with self._loading:
                step = served.step  # the run may save meanwhile
                if served.system is None or served.loaded != step:
                    served.system, served.loaded = load(served.folder, device=self.device), step
        return served.system

    def load_all(self) -> None:
        """Load the models named at the start one after another, while the server already answers."""
        self.ready = False

        def load() -> None:
            for served in self:
                try:
                    self.load(served)
                except Exception as error:  # clients that use the model get the error
                    log.error("cannot load", extra={"model": served.name, "error": type(error).__name__})
            self.ready = True

        threading.Thread(target=load, name="loading", daemon=True).start()

    def stop(self, seconds: float) -> None:
        """Let every worker finish its queue."""
        end = time.monotonic() + seconds
        for served in (*self, *self._own.values()):
            served.worker.stop(max(0.0, end - time.monotonic()))

    def _with_worker(self, served: Served) -> Served:
        def computing(key: Hashable, items: Sequence[Any]) -> list[Any]:
            return compute(self.load(served), key, items)

        served.worker = Worker(served.name, computing, self.pace, self.metrics)
        return served


def find_model(folder: Path) -> Served:
    """Describe a model from its folder, without loading it."""
    run = RunFolder(refuse_export(folder))
    run.require_run()
    config = load_run(run.config)
    kind = KINDS[system_of(catalog.find(config.task, "task").load(), folder, config.task)]
    about: dict[str, Any] = {"system": config.model, "summary": f"{config.model} on {config.task}"}
    about |= {"figure": "", "examples": [], "tape": _tape(config)}
    own = folder.resolve().name
    if (folder / RECORD).is_file():
        packed = read_packed(folder)
        own, record = packed.name, packed.record
        about |= {
            "summary": record["sentence"],
            "figure": packed.figure,
            "examples": list(record.get("examples", {}))[:12],
        }
    return Served(own, folder, kind, about)


def _tape(config: RunConfig) -> dict[str, int] | None:
    """Input sizes of a Neural Turing Machine whose task accepts user input; None for other models."""
    if config.model != "ntm" or config.task not in (CopyTask.name, AssociativeRecallTask.name):
        return None
    task = catalog.find(config.task, "task").load().Settings(**config.task_settings)
    copies = config.task == CopyTask.name
    trained = task.longest if copies else task.most
    return {"width": task.bits, "item": 1 if copies else task.item, "trained": trained}

"""The models that are served: found by name, loaded when they are first asked, each with its worker."""

import threading
import time
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard import catalog
from regard.errors import DataError
from regard.export.base import is_export
from regard.serve.batching import Worker
from regard.serve.limits import Pace, limits_of
from regard.serve.metrics import Metrics
from regard.serve.problems import Problem, unknown_model
from regard.serve.work import KINDS, compute
from regard.shipped.find import RECORD, find_run, read_packed
from regard.systems.loading import SYSTEMS, load
from regard.systems.system import System
from regard.train.checkpoint import RunFolder
from regard.train.config import load_run


@dataclass(eq=False)
class Served:
    """A model under its name; `system` is None until it is loaded."""

    name: str
    folder: Path
    kind: str
    about: dict[str, Any]
    worker: Worker = field(init=False)
    system: System | None = None

    def describe(self, pace: Pace) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, **self.about, "limits": limits_of(self.kind, pace)}


class Models:
    """All that is served, by name."""

    def __init__(
        self, names: Iterable[str], pace: Pace, metrics: Metrics, *, device: str | None = None
    ) -> None:
        self.pace, self.metrics, self.device = pace, metrics, device
        self._loading = threading.Lock()
        self.ready = True  # nothing is still to be loaded beforehand
        self._models: dict[str, Served] = {}
        for name in names:
            served = find_model(name)
            if served.name in self._models:
                raise DataError(f"serve: `NAME` has {served.name!r} twice; expected other names.")
            served.worker = Worker(served.name, self._computing(served), pace, metrics)
            self._models[served.name] = served

    def __iter__(self) -> Any:
        return iter(self._models.values())

    def find(self, name: str, kind: str) -> Served:
        """A model of this name that does this; `Problem` otherwise."""
        served = self._models.get(name)
        if served is None:
            raise unknown_model(name, [each.name for each in self if each.kind == kind])
        if served.kind != kind:
            raise Problem(
                422,
                "wrong_kind",
                f"model: {name!r} is for {served.kind!r}; expected one for {kind!r}.",
            )
        return served

    def load(self, served: Served) -> System:
        """The system of a model; one is loaded at a time."""
        with self._loading:
            if served.system is None:
                served.system = load(served.folder, device=self.device)
            return served.system

    def stop(self, seconds: float) -> bool:
        """Let every worker finish what waits; whether all did in time."""
        end = time.monotonic() + seconds
        ended = [served.worker.stop(max(0.0, end - time.monotonic())) for served in self]
        return all(ended)

    def _computing(self, served: Served) -> Any:
        def computing(key: Hashable, items: Sequence[Any]) -> list[Any]:
            return compute(served.system or self.load(served), key, items)

        return computing


def find_model(name: str) -> Served:
    """What its folder says of a model, without loading it."""
    folder = find_run(name)
    if is_export(folder):
        raise DataError(f"{folder}: an export, which the command `regard translate` reads; expected a run.")
    run = RunFolder(folder)
    run.require_run()
    config = load_run(run.config)
    task = catalog.find(config.task, "task").load()
    kind = next((KINDS[system] for base, system in SYSTEMS.items() if issubclass(task, base)), None)
    if kind is None:
        raise DataError(
            f"{folder}: task is {config.task!r}, for which there is no system; see `regard show`."
        )
    about = {
        "system": config.model,
        "summary": f"{config.model} on {config.task}",
        "figure": "",
        "examples": [],
    }
    own = folder.resolve().name
    if (folder / RECORD).is_file():
        packed = read_packed(folder)
        own, record = packed.name, packed.record
        about |= {
            "summary": record["sentence"],
            "figure": f"{record['metric']} {record['value']:g}",
            "examples": list(record.get("examples", {}))[:12],
        }
    return Served(own, folder, kind, about)

"""From a config to a model and its task, and from a run folder back to both."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from regard import catalog
from regard.errors import ConfigError, DataError
from regard.extras import installed
from regard.models.base import Model
from regard.tasks.base import Filling, Task
from regard.train.checkpoint import Name
from regard.train.config import RunConfig, load_run
from regard.train.memory import WithinMemory
from regard.train.run_folder import RunFolder


@dataclass(frozen=True)
class Run:
    """A trained model, ready to be used."""

    config: RunConfig
    model: Model
    task: Task
    folder: Path
    step: int


def create(config: RunConfig) -> tuple[Model, Task]:
    """The task with its data, and the model with the first weights that the seed gives."""
    task = create_task(config)
    model = build_model(config, task)
    if isinstance(task, Filling):
        task.fill(model)
    return model, task


def create_task(config: RunConfig) -> Task:
    """The task with its data."""
    task_class = catalog.find(config.task, "task").load()
    task: Task = task_class.create(task_class.Settings(**config.task_settings))
    return task


def reopen(folder: Path, overrides: Sequence[str] = ()) -> tuple[RunConfig, Model, Task]:
    """What `fit(…, resume=True)` needs to go on in a run folder; it loads the weights itself."""
    run = RunFolder(folder)
    run.require_run()
    config = load_run(run.config, overrides)
    task_class = catalog.find(config.task, "task").load()
    task: Task = task_class.restore(task_class.Settings(**config.task_settings), run.path)
    return config, build_model(config, task), task


def open_run(
    folder: Path, *, checkpoint: Name | None = None, device: torch.device | str | None = None
) -> Run:
    """A trained model from its run folder, on the accelerator if there is one.

    Unless told otherwise, with the averaged weights if the run made them, else the best; where nothing was
    evaluated yet, the best is the last.
    """
    run = RunFolder(folder)
    run.require_run()
    if checkpoint is None:
        checkpoint = preferred(run)
    if checkpoint == "best" and run.find("best") is None:
        checkpoint = "last"
    run.require(checkpoint)
    config, model, task = reopen(folder)
    step = run.load_model(model, checkpoint)
    device = torch.accelerator.current_accelerator(check_available=True) if device is None else device
    return Run(config, model.to(device or "cpu").eval(), task, run.path, step)


def check_device(argument: str, device: torch.device | str | None) -> None:
    """Refuse a device that torch does not find here, or does not know; None is passed."""
    if device is None:
        return
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):  # the name of no device
        kind = "meta"
    if not there.get(kind, kind != "meta"):
        here = " or ".join(name for name, found in there.items() if found)
        raise ConfigError(f"{argument} has {device}, which PyTorch does not find here; expected {here}.")


def preferred(run: RunFolder) -> Name:
    """The checkpoint that is used unless somebody asks for another."""
    if run.find("averaged") is not None:
        return "averaged"
    return "last" if run.find("best") is None else "best"


def other_corpus(run: Run, name: str, data: str = "", *, owner: str) -> Task:
    """Another corpus for a translator; `owner` is the command with the option."""
    from regard.tasks.corpus import on_corpus
    from regard.tasks.translation import TranslationTask

    if not isinstance(run.task, TranslationTask):
        raise DataError(f"{owner}: `--on` has {name}; the task {run.config.task!r} is not translation.")
    return on_corpus(run.task, name, data)


def build_model(config: RunConfig, task: Task) -> Model:
    """A model for this task, with the first weights that the seed gives."""
    model_class = catalog.find(config.model, "model").load()
    settings = dict(config.model_settings) | _sizes(model_class.Config, config.model_settings, task)
    random.seed(config.train.seed)
    torch.manual_seed(config.train.seed)
    if installed("numpy"):  # a model of somebody else's may draw from it
        import numpy

        numpy.random.seed(config.train.seed)
    with WithinMemory(settings):
        model: Model = model_class(model_class.Config(**settings))
    return model


def _sizes(kind: type[Any], settings: Mapping[str, Any], task: Task) -> dict[str, int]:
    """What the model's Config takes from the data. A recipe may not say otherwise."""
    defaults = {field.name: field.default for field in fields(kind)}
    sizes = {name: size for name, size in task.sizes().items() if name in defaults}
    for name, size in sizes.items():
        given = settings.get(name, MISSING)
        if given is not MISSING and given not in (size, defaults[name]):
            raise ConfigError(
                f"'model.{name}' is {given!r}; the data of the task has {size}. Leave the key out."
            )
    return sizes

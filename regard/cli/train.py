"""regard train: trains a recipe, your own files or a named corpus into a run folder."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.common import say, train_on
from regard.cli.options import DeviceOption, SettingsOption
from regard.cli.text import RECURRENT, Text, chosen_size, chosen_steps, given_value, text_settings
from regard.errors import ConfigError
from regard.train.launcher import is_main_process

if TYPE_CHECKING:
    from regard.train.config import RunConfig
    from regard.train.loop import Summary


def command(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="[RECIPE|FILE.toml]", help="A name from `regard list recipe`, or your own file."
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="DIR", help="Run folder; default: runs/RECIPE.")
    ] = None,
    settings: SettingsOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the last checkpoint of --run.")
    ] = False,
    resume_or_start: Annotated[
        bool,
        typer.Option(
            "--resume-or-start",
            help="Continue if the folder holds a run, otherwise start; for jobs that get restarted.",
        ),
    ] = False,
    *,
    text: Text,
    model: Annotated[
        str, typer.Option(metavar="NAME", help="A model from `regard list model`, with its own defaults.")
    ] = "",
    device: DeviceOption = None,
) -> None:
    """Train a model from a recipe, from two text files, or from a corpus by name.

    regard train rnnsearch-en-fr
    regard train rnnsearch-en-fr --set model.attention.score=general --set train.steps=3000 --run runs/general
    regard train --source train.en --target train.de
    regard train --corpus multi30k-en-de --data corpora
    regard train --resume --run runs/general

    Without a recipe or --model, this trains a Transformer whose size follows from the amount of text.
    Ctrl-C saves the state; `--resume` continues as if nothing had happened.
    """
    from regard.lock import GONE
    from regard.train.lock import require_free
    from regard.train.loop import fit
    from regard.train.run import create, reopen
    from regard.train.run_folder import RunFolder

    text.check("train")
    overrides = settings or []
    if recipe is None and not text.given and not (resume and run):
        raise ConfigError(
            "train: no recipe was named; expected RECIPE, --source and --target, --corpus, "
            "or --resume with --run DIR."
        )
    for name, given_name in (("RECIPE", recipe), ("--run", run)):
        if given_name is not None and not given_name.strip():
            raise ConfigError(f"train: `{name}` is empty; expected a name.")
    train_on(device)
    folder = Path(run) if run else Path("runs") / (Path(recipe).stem if recipe else text.name)
    if resume_or_start:
        resume = resume or RunFolder(folder).config.exists()
    elif is_main_process():
        require_free(folder)  # before the task is prepared, which may take minutes
    if resume:
        config, built, task = reopen(folder, overrides)
        if model not in ("", config.model):
            raise ConfigError(
                f"{folder}: `--model` has {model!r}; expected {config.model!r}, the model of the run."
            )
    else:
        config = choose_config(recipe, text, model, overrides)
        if is_main_process():
            RunFolder(folder).require_new()
        if recipe is None and config.model == "transformer" and not model:
            say(f"chosen for this much text: {describe_size(config)}")
        say(f"preparing the task {config.task}")
        built, task = create(config)
    parameters = sum(p.numel() for p in built.parameters())
    say(f"training {config.model}, {parameters:,} parameters, into {folder}")
    # a restarted job's predecessor may have just died on another machine
    wait = 2 * GONE if resume_or_start else 0.0
    report(fit(built, task, config, run=folder, resume=resume, wait=wait))
    say(f"next: regard evaluate {folder}")


def choose_config(recipe: str | None, text: Text, model: str, overrides: list[str]) -> "RunConfig":
    """The recipe's config, with the given text and model."""
    from regard.train.config import load_recipe
    from regard.train.own_text import RECIPE

    tables: dict[str, dict[str, Any]] = {}
    chosen = []
    named = model or given_value(overrides, "model.name")
    used = recipe or (RECURRENT if named else RECIPE)
    if text.given:
        tables["task"] = text_settings(used) | text.table()
        if recipe is None:
            chosen += chosen_steps(text) if named else chosen_size(text, overrides)
    elif text.data:
        chosen.append(f"task.data={json.dumps(text.data)}")
    if model:
        tables["model"] = {"name": model}
    return load_recipe(used, [*chosen, *overrides], tables=tables)


def describe_size(config: "RunConfig") -> str:
    """The network and its training in one line."""
    model, task, train = config.model_settings, config.task_settings, config.train
    ends = ", fewer if the validation loss stops falling" if train.patience else ""
    network = f"{model['layers']} layers, width {model['d_model']}, dropout {model['dropout']}"
    return f"{network}, {task['size']:,} pieces; {train.steps:,} steps{ends}"


def report(summary: "Summary") -> None:
    """Print how a training run ended."""
    line = f"{summary.steps} step{'s' * (summary.steps != 1)} in {summary.seconds:.0f} s"
    if summary.stopped_early:
        line += " (stopped early)"
    if summary.best_loss is not None:
        line += f", best validation loss {summary.best_loss:.4f} at step {summary.best_step}"
    say(line)

"""regard train: a recipe becomes a run folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.common import is_main_process, say
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.train.loop import Summary


def command(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="[RECIPE|FILE.toml]", help="A name from `regard list recipe`, or your own file."
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--run", metavar="DIR", help="Run folder; default runs/RECIPE.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=C", help="Override one setting; may be given several times."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the folder's last checkpoint.")
    ] = False,
) -> None:
    """Train a model from a recipe.

    regard train rnnsearch-en-fr
    regard train rnnsearch-en-fr --set model.score=general --set train.steps=3000 --run runs/general
    regard train --resume --run runs/general

    Ctrl-C saves the state; `--resume` goes on as if nothing had happened.
    """
    from regard.train.checkpoint import RunFolder
    from regard.train.config import load_recipe
    from regard.train.loop import fit
    from regard.train.run import create, reopen

    overrides = settings or []
    if recipe is None and not (resume and run):
        raise ConfigError("train: no recipe was named; expected RECIPE, or --resume with --run DIR.")
    folder = run or Path("runs") / Path(str(recipe)).stem
    if resume:
        config, model, task = reopen(folder, overrides)
    else:
        config = load_recipe(str(recipe), overrides)
        if is_main_process():
            RunFolder(folder).require_new()
        say(f"preparing the task [bold]{config.task}[/]")
        model, task = create(config)
    parameters = sum(p.numel() for p in model.parameters())
    say(f"training [bold]{config.model}[/], {parameters:,} parameters, into {folder}")
    report(fit(model, task, config, run=folder, resume=resume))
    say(f"next: [bold]regard evaluate {folder}[/]")


def report(summary: "Summary") -> None:
    """How a training run ended, in one line."""
    line = f"{summary.steps} steps in {summary.seconds:.0f} s"
    if summary.stopped_early:
        line += " (stopped early)"
    if summary.best_loss is not None:
        line += f", best validation loss {summary.best_loss:.4f} at step {summary.best_step}"
    say(line)

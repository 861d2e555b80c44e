"""regard prepare: tokenizes and encodes large text ahead of training."""

import os
from typing import Annotated

import typer

from regard.cli.common import output, say
from regard.cli.options import SettingsOption
from regard.cli.text import Text
from regard.cli.train import choose_config
from regard.errors import ConfigError


def command(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE|FILE.toml]", help="As for `regard train`.")
    ] = None,
    settings: SettingsOption = None,
    *,
    text: Text,
    model: Annotated[str, typer.Option(metavar="NAME", help="As for `regard train`.")] = "",
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes that encode; default: one per core.")
    ] = None,
) -> None:
    """Learn the tokenizers of large text and encode it, without training.

    regard prepare --source train.en --target train.de
    regard prepare transformer-multi30k-en-de --source train.en --target train.de --processes 16

    Give it the recipe, text and settings that `regard train` will get. Training then finds the prepared data
    in regard's cache, on this machine or on all machines that share the folder REGARD_CACHE. If interrupted,
    run it again to continue.
    """
    from regard.data.workers import VARIABLE
    from regard.tasks.texts import TextTask
    from regard.train.run import create_task

    text.check("prepare")
    if recipe is None and not text.given:
        raise ConfigError("prepare: no text was named; expected RECIPE, --source and --target, or --corpus.")
    if processes is not None:
        os.environ[VARIABLE] = str(processes)
    config = choose_config(recipe, text, model, settings or [])
    task = create_task(config)
    if not isinstance(task, TextTask):
        raise ConfigError(f"prepare: the task is {config.task!r}; expected one on text, files or corpus.")
    folder = task.prepare()
    if folder is None:
        say("the text is small: every training prepares it in memory, in seconds.")
    else:
        output.print(f"{len(task.encoded('train')):,} pairs in {folder}", soft_wrap=True)

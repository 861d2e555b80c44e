"""regard train: a recipe, your own files or a corpus by name become a run folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.common import is_main_process, say
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.train.config import RunConfig
    from regard.train.loop import Summary

DEFAULT = "translator"  # the recipe of text that comes without one
PASSES = 10  # through the text, where the steps are chosen from its size
LETTERS = 4  # bytes of text for a piece, roughly
FEWEST, MOST = 500, 60_000  # steps

File = Annotated[str, typer.Option(metavar="FILE", help="Text, one sentence a line, plain or .gz.")]
Language = Annotated[str, typer.Option(metavar="CODE", help="Default: from the file's name, train.en.")]


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
    source: File = "",
    target: File = "",
    valid_source: File = "",
    valid_target: File = "",
    test_source: File = "",
    test_target: File = "",
    source_language: Language = "",
    target_language: Language = "",
    corpus: Annotated[
        str, typer.Option(metavar="NAME", help="A corpus by name: multi30k-en-de, tatoeba-en-fr, …")
    ] = "",
    data: Annotated[
        str, typer.Option(metavar="DIR", help="The folder that holds the corpora; default REGARD_DATA.")
    ] = "",
    model: Annotated[
        str, typer.Option(metavar="NAME", help="A model of `regard list model` with its own defaults.")
    ] = "",
) -> None:
    """Train a model from a recipe, from two text files, or from a corpus by name.

    regard train rnnsearch-en-fr
    regard train rnnsearch-en-fr --set model.score=general --set train.steps=3000 --run runs/general
    regard train --source train.en --target train.de
    regard train --corpus multi30k-en-de --data corpora
    regard train --resume --run runs/general

    Ctrl-C saves the state; `--resume` goes on as if nothing had happened.
    """
    from regard.train.checkpoint import RunFolder
    from regard.train.loop import fit
    from regard.train.run import create, reopen

    text = Text(
        files={
            "source": source,
            "target": target,
            "valid_source": valid_source,
            "valid_target": valid_target,
            "test_source": test_source,
            "test_target": test_target,
        },
        languages=(source_language, target_language),
        corpus=corpus,
        data=data,
    )
    overrides = settings or []
    if recipe is None and not text.given and not (resume and run):
        raise ConfigError(
            "train: no recipe was named; expected RECIPE, --source and --target, --corpus, "
            "or --resume with --run DIR."
        )
    folder = run or Path("runs") / (Path(recipe).stem if recipe else text.name)
    if resume:
        config, built, task = reopen(folder, overrides)
    else:
        config = choose_config(recipe, text, model, overrides)
        if is_main_process():
            RunFolder(folder).require_new()
        say(f"preparing the task [bold]{config.task}[/]")
        built, task = create(config)
    parameters = sum(p.numel() for p in built.parameters())
    say(f"training [bold]{config.model}[/], {parameters:,} parameters, into {folder}")
    report(fit(built, task, config, run=folder, resume=resume))
    say(f"next: [bold]regard evaluate {folder}[/]")


@dataclass(frozen=True)
class Text:
    """The text that the options name, if any."""

    files: Mapping[str, str]
    languages: tuple[str, str]  # empty: to be guessed
    corpus: str
    data: str
    owner: str = "train"  # the command that has the options

    def __post_init__(self) -> None:
        named = [f"--{key.replace('_', '-')}" for key, path in self.files.items() if path]
        if self.corpus and named:
            raise ConfigError(
                f"{self.owner}: `--corpus` has {self.corpus} beside {named[0]}; expected one of them."
            )
        if named and not (self.files["source"] and self.files["target"]):
            raise ConfigError(f"{self.owner}: {named[0]} is given; expected both `--source` and `--target`.")

    @property
    def given(self) -> bool:
        return bool(self.corpus or self.files["source"])

    @property
    def name(self) -> str:
        """A name for the run."""
        return self.corpus or "-".join(self.pair())

    def pair(self) -> tuple[str, str]:
        """The two languages."""
        from regard.tasks.files import guess_language

        source, target = self.languages
        return (
            source or guess_language(self.files["source"]),
            target or guess_language(self.files["target"]),
        )

    def table(self) -> dict[str, Any]:
        """The `[task]` table for this text."""
        if self.corpus:
            return {"name": "corpus", "corpus": self.corpus, "data": self.data}
        # a run may be resumed from another folder
        paths = {key: str(Path(path).resolve()) for key, path in self.files.items() if path}
        source, target = self.pair()
        return {"name": "files", **paths, "source_language": source, "target_language": target}

    def paths(self) -> list[Path]:
        """The training files."""
        from regard.data.corpora import find_corpus

        if self.corpus:
            return find_corpus(self.corpus).paths("train", self.data)
        return [Path(self.files["source"]), Path(self.files["target"])]


def choose_config(recipe: str | None, text: Text, model: str, overrides: list[str]) -> "RunConfig":
    """The recipe's config, with the text and the model that were named in the place of its own."""
    from regard.train.config import load_recipe

    tables: dict[str, dict[str, Any]] = {}
    chosen = []
    if text.given:
        tables["task"] = text_settings(recipe or DEFAULT) | text.table()
        if recipe is None:
            chosen += chosen_steps(text)
    elif text.data:
        chosen.append(f"task.data={json.dumps(text.data)}")
    if model:
        tables["model"] = {"name": model}
    return load_recipe(recipe or DEFAULT, [*chosen, *overrides], tables=tables)


def text_settings(recipe: str) -> dict[str, Any]:
    """How a recipe cuts text: what stays of its task when it is given other text."""
    from regard.tasks.texts import TextSettings
    from regard.train.config import load_recipe

    shared = {field.name for field in fields(TextSettings)}
    return {key: value for key, value in load_recipe(recipe).task_settings.items() if key in shared}


def chosen_steps(text: Text) -> list[str]:
    """Some passes through the text, in the steps of the default recipe."""
    from regard.tasks.texts import text_bytes
    from regard.train.config import load_recipe

    batch = load_recipe(DEFAULT).train.batch
    try:
        pieces = text_bytes(text.paths()) / LETTERS
    except OSError as error:
        raise ConfigError(f"{error.filename}: {(error.strerror or str(error)).lower()}.") from error
    steps = int(min(max(PASSES * pieces / batch, FEWEST), MOST))
    every = max(steps // 10, 50)
    return [
        f"train.steps={steps}",
        f"train.warmup={steps // 20}",
        f"train.evaluate_every={every}",
        f"train.checkpoint_every={every}",
    ]


def report(summary: "Summary") -> None:
    """How a training run ended, in one line."""
    line = f"{summary.steps} steps in {summary.seconds:.0f} s"
    if summary.stopped_early:
        line += " (stopped early)"
    if summary.best_loss is not None:
        line += f", best validation loss {summary.best_loss:.4f} at step {summary.best_step}"
    say(line)

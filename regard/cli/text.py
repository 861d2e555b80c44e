"""The text that `regard train` and `regard compare` take in place of a recipe's: files, or a named corpus."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.errors import ConfigError

DEFAULT = "translator"  # the recipe of text that comes without one
PASSES = 10  # through the text, where the steps are chosen from its size
LETTERS = 4  # bytes of text for a piece, roughly
FEWEST, MOST = 500, 60_000  # steps
FILES = ("source", "target", "valid_source", "valid_target", "test_source", "test_target")

File = Annotated[str, typer.Option(metavar="FILE", help="Text, one sentence a line, plain or .gz.")]
Language = Annotated[str, typer.Option(metavar="CODE", help="Default: from the file's name, train.en.")]


@dataclass(frozen=True)
class Text:
    """The text that the options name, if any."""

    files: Mapping[str, str]  # by the names in FILES; empty: not given
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
        paths = {key: str(Path(path).absolute()) for key, path in self.files.items() if path}
        source, target = self.pair()
        return {"name": "files", **paths, "source_language": source, "target_language": target}

    def paths(self) -> list[Path]:
        """The training files."""
        from regard.data.corpora import find_corpus

        if self.corpus:
            return find_corpus(self.corpus).paths("train", self.data)
        return [Path(self.files["source"]), Path(self.files["target"])]


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

"""Text that `regard train` and `regard compare` use instead of a recipe's: files, or a named corpus."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.errors import ConfigError

RECURRENT = "translator"  # recipe for text without a recipe, if a model or variants are named
PASSES = 10  # over the text, when its size decides the steps
LETTERS = 4  # bytes of text per subword, roughly
FEWEST, MOST = 500, 60_000  # steps
FILES = ("source", "target", "valid_source", "valid_target", "test_source", "test_target")

File = Annotated[str, typer.Option(metavar="FILE", help="Text file, one sentence a line, plain or .gz.")]
Language = Annotated[
    str, typer.Option(metavar="CODE", help="Default: from the file's name, such as train.en.")
]


@dataclass(frozen=True)
class Text:
    """The text named by the options; each field is an option, empty if not given."""

    source: File = ""
    target: File = ""
    valid_source: File = ""
    valid_target: File = ""
    test_source: File = ""
    test_target: File = ""
    source_language: Language = ""
    target_language: Language = ""
    corpus: Annotated[
        str, typer.Option(metavar="NAME", help="A corpus by name: multi30k-en-de, tatoeba-en-fr, …")
    ] = ""
    data: Annotated[
        str, typer.Option(metavar="DIR", help="Folder with the corpora; default: REGARD_DATA.")
    ] = ""

    def check(self, owner: str) -> None:
        """Raise ConfigError for incomplete or conflicting options; `owner` is the command."""
        named = [f"--{key.replace('_', '-')}" for key in self.files]
        if self.corpus and named:
            raise ConfigError(
                f"{owner}: `--corpus` has {self.corpus} beside {named[0]}; expected one of them."
            )
        if named and not (self.source and self.target):
            raise ConfigError(f"{owner}: {named[0]} is given; expected both `--source` and `--target`.")

    @property
    def files(self) -> dict[str, str]:
        """The given files, by option."""
        return {key: path for key in FILES if (path := getattr(self, key))}

    @property
    def given(self) -> bool:
        return bool(self.corpus or self.source)

    @property
    def name(self) -> str:
        """A name for the run."""
        return self.corpus or "-".join(self.pair())

    def pair(self) -> tuple[str, str]:
        """The two languages."""
        from regard.data.corpora import find_corpus
        from regard.tasks.files import guess_language

        if self.corpus:
            return find_corpus(self.corpus).languages
        return (
            self.source_language or guess_language(self.source),
            self.target_language or guess_language(self.target),
        )

    def table(self) -> dict[str, Any]:
        """The `[task]` table for this text."""
        if self.corpus:
            return {"name": "corpus", "corpus": self.corpus, "data": self.data}
        # a run may be resumed from another folder
        paths = {key: str(Path(path).absolute()) for key, path in self.files.items()}
        source, target = self.pair()
        return {"name": "files", **paths, "source_language": source, "target_language": target}

    def paths(self) -> list[Path]:
        """The training files."""
        from regard.data.corpora import find_corpus

        if self.corpus:
            return find_corpus(self.corpus).paths("train", self.data)
        return [Path(self.source), Path(self.target)]

    def measure(self) -> tuple[int, int]:
        """The number of training pairs, and their size in bytes."""
        from regard.data.corpora import find_corpus
        from regard.data.prepared import counted

        if not self.corpus:
            pairs = counted(*self.paths())
            return pairs.count, pairs.bytes
        sizes = [
            len(pair.source.encode()) + len(pair.target.encode())
            for pair in find_corpus(self.corpus).stream("train", self.data)
        ]
        return len(sizes), sum(sizes)


def text_settings(recipe: str) -> dict[str, Any]:
    """The text settings of a recipe's task, which also apply to other text."""
    from regard.tasks.texts import TextSettings
    from regard.train.config import load_recipe

    shared = {field.name for field in fields(TextSettings)}
    return {key: value for key, value in load_recipe(recipe).task_settings.items() if key in shared}


def chosen_size(text: Text, overrides: Sequence[str] = ()) -> list[str]:
    """Settings of a Transformer for this amount of text; `overrides` are the user's own settings."""
    import torch

    from regard.tasks.texts import is_unspaced
    from regard.train.own_text import settings_for

    # characters of an unspaced script share nothing with the other side; words are counted per side
    joint = not any(map(is_unspaced, text.pair())) and given_value(overrides, "task.pieces") in (None, "bpe")
    gpu = torch.cuda.is_available() and os.environ.get("ACCELERATE_TORCH_DEVICE", "cuda") == "cuda"
    return settings_for(*text.measure(), joint=joint, gpu=gpu and torch.cuda.is_bf16_supported())


def given_value(overrides: Sequence[str], key: str) -> str | None:
    """The last value given for this key; None if there is none."""
    given = [value.strip() for name, _, value in (each.partition("=") for each in overrides) if name == key]
    return given[-1] if given else None


def chosen_steps(text: Text) -> list[str]:
    """Training length for the recurrent recipe: some passes over the text."""
    from regard.data.prepared import text_bytes
    from regard.train.config import load_recipe

    batch = load_recipe(RECURRENT).train.batch
    pieces = text_bytes(text.paths()) / LETTERS
    steps = int(min(max(PASSES * pieces / batch, FEWEST), MOST))
    every = max(steps // 10, 50)
    return [
        f"train.steps={steps}",
        f"train.warmup={steps // 20}",
        f"train.evaluate_every={every}",
        f"train.checkpoint_every={every}",
    ]

"""Common parts of all exports: the folder with its tokenizers, and a record that describes it.

    export.json            the format, the model, the step, the whole resolved config of the run
    *.tokenizer.json       as in the run folder: raw text in, raw text out
    everything else        the other engine's own files

A folder is written under a temporary name and renamed, so it is either complete or absent.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import storage
from regard.data.tokens import Tokenizer
from regard.decode.base import Decoding
from regard.errors import DataError
from regard.models.base import Translating
from regard.tasks.translation import TranslationTask
from regard.train.run import Run

FORMAT = 1  # of export.json
NAME = "export.json"


@dataclass(frozen=True)
class Translatable:
    """A run that can be exported: a model that translates, and its tokenizers."""

    run: Run
    model: Translating
    task: TranslationTask


@dataclass(frozen=True)
class Export:
    """An exported folder, before its model is loaded."""

    folder: Path
    to: str
    decode: Decoding
    longest: int  # subwords in a sentence, including eos
    source: Tokenizer
    target: Tokenizer


def is_export(folder: Path) -> bool:
    """Whether the folder is an export rather than a run folder."""
    return (folder / NAME).is_file()


def translatable(run: Run) -> Translatable:
    """The run, if it is a translator; DataError otherwise."""
    if not isinstance(run.task, TranslationTask) or not isinstance(run.model, Translating):
        raise DataError(f"{run.folder}: task is {run.config.task!r}; expected a translation task.")
    return Translatable(run, run.model, run.task)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a folder that becomes `out` at the end; it may replace an earlier export, but nothing else."""
    if out.exists() and not is_export(out):
        raise DataError(f"{out}: exists and is not an export; choose another folder with --out.")
    aside = storage.aside(out)
    aside.mkdir(parents=True)
    try:
        yield aside
        if out.exists():
            shutil.rmtree(out)
        aside.rename(out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def describe(given: Translatable, folder: Path, *, to: str, longest: int, **facts: Any) -> None:
    """Write the tokenizers and the record."""
    TranslationTask.save(given.task, folder)
    record = {
        "format": FORMAT,
        "to": to,
        "step": given.run.step,
        "longest": longest,
        "config": given.run.config.tables(),
        **facts,
    }
    (folder / NAME).write_text(
        json.dumps(record, indent=2, ensure_ascii=False, default=list) + "\n", encoding="utf-8"
    )


def read_export(folder: Path) -> Export:
    """Read what `describe` wrote."""
    path = folder / NAME
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON; export the run again.") from error
    if isinstance(record, dict) and record.get("format") != FORMAT:
        raise DataError(f"{path}: `format` has {record.get('format')!r}; expected {FORMAT}. Update regard.")
    try:
        decode = Decoding(**record["config"]["decode"])
        to, longest = str(record["to"]), int(record["longest"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: fields are missing or wrong; export the run again.") from error
    return Export(folder, to, decode, longest, *TranslationTask.load_tokenizers(folder))


def check_length(encoded: Sequence[Sequence[int]], longest: int) -> None:
    """Raise DataError for sources longer than the exported model's positions."""
    pieces = max(map(len, encoded)) + 1
    if pieces > longest:
        raise DataError(
            f"translate: a sentence has {pieces} pieces, including its end; expected at most {longest}, the "
            "number of positions of the exported model."
        )

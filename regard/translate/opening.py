"""Opens the translator in a folder, a run or an export; its search settings and its digest."""

import hashlib
from pathlib import Path

from regard.decode.base import Decoding
from regard.decode.translator import TextTranslator, Translator
from regard.errors import ConfigError, DataError
from regard.export.base import is_export, read_export, translatable
from regard.export.formats import open_export
from regard.train.checkpoint import WEIGHTS
from regard.train.config import load_run
from regard.train.run import open_run, preferred
from regard.train.run_folder import RunFolder
from regard.train.verified_files import digest_of_file


def open_any(folder: Path, *, align: bool, device: str | None = None) -> tuple[TextTranslator, Decoding]:
    """The translator in a folder, and its recipe's search settings."""
    if not is_export(folder):
        opened = translatable(open_run(folder, device=device))
        config = opened.run.config
        if align and opened.model.aligner is None:
            raise DataError(
                f"{folder}: the model is {config.model!r}, which has no attention; expected a model with "
                "attention for --align."
            )
        return Translator(opened.model, opened.task.source, opened.task.target), config.decode
    if device is not None:
        raise ConfigError(f"translate: `--device` has {device}; expected none, as an export chooses its own.")
    exported, translator = open_export(folder)
    if align and translator.aligner is None:
        raise DataError(
            f"{folder}: is an export to {exported.to}, which returns no attention weights; expected a run "
            "folder or an export to ctranslate2 for --align."
        )
    return translator, exported.decode


def read_decoding(folder: Path) -> Decoding:
    """The recipe's search settings, without loading weights."""
    if is_export(folder):
        return read_export(folder).decode
    run = RunFolder(folder)
    run.require_run()
    return load_run(run.config).decode


def model_digest(folder: Path) -> str:
    """SHA-256 of the files that determine a translation: config, tokenizers, weights."""
    if is_export(folder):
        files = [path for path in folder.iterdir() if path.is_file()]
    else:
        run = RunFolder(folder)
        run.require_run()
        weights = run.require(preferred(run)) / WEIGHTS
        files = [run.config, *folder.glob("*tokenizer.json"), weights]
    whole = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.name):
        whole.update(f"{path.name} {digest_of_file(path)}\n".encode())
    return whole.hexdigest()

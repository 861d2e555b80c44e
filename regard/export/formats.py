"""The export formats, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from regard.decode.translator import TextTranslator
from regard.errors import ConfigError, DataError
from regard.export import ctranslate2, onnx
from regard.export.base import Export, Translatable, read_export, translatable
from regard.export.onnx_runtime import OnnxTranslator
from regard.train.run import Run


@dataclass(frozen=True)
class Format:
    """How to write a format, and how to read it back."""

    write: Callable[[Translatable, Path], Path]
    read: Callable[[Export], TextTranslator]


FORMATS: dict[str, Format] = {
    ctranslate2.TO: Format(ctranslate2.export, ctranslate2.EngineTranslator),
    onnx.TO: Format(onnx.export, OnnxTranslator),
}


def export_run(run: Run, to: str, out: Path | None = None) -> Path:
    """Export a run's model with all it needs to translate; `out` defaults to RUN/FORMAT."""
    if to not in FORMATS:
        raise ConfigError(f"export: `--to` has {to!r}; expected {' or '.join(FORMATS)}.")
    return FORMATS[to].write(translatable(run), run.folder / to if out is None else out)


def open_export(folder: Path) -> tuple[Export, TextTranslator]:
    """Open what `export_run` wrote."""
    exported = read_export(folder)
    if exported.to not in FORMATS:
        raise DataError(f"{folder}: format {exported.to!r} is unknown to this regard; update regard.")
    return exported, FORMATS[exported.to].read(exported)

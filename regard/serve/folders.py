"""Hugging Face transformers models in a local folder, enabled by `--allow-folder`.

A client names a subfolder, never a path. Weights are loaded from safetensors only, code next to them never
runs, and nothing is downloaded.
"""

import json
import logging
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.errors import ConfigError
from regard.integrations.transformers import trace_text
from regard.notebook.view import view
from regard.serve.limits import TRACE_BYTES, TRACE_PIECES
from regard.serve.problems import Problem, unknown_model
from regard.serve.requests import TraceRequest
from regard.serve.runs import named_folders

log = logging.getLogger("regard.serve")

LOCAL = {"local_files_only": True, "trust_remote_code": False}


class Folders:
    """The models in a folder; the last one used stays loaded."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._loaded: tuple[Path, Any, Any] | None = None
        if folder is not None:
            _require(folder)

    def every(self) -> list[dict[str, Any]]:
        """The available models, by name."""
        return [about for path in sorted(self._models()) if (about := _describe(path)) is not None]

    def trace(self, requests: Sequence[TraceRequest]) -> list[dict[str, Any]]:
        """The attention of every head while the model reads each text, as data for regard.view."""
        return [self._trace(request) for request in requests]

    def _trace(self, request: TraceRequest) -> dict[str, Any]:
        known = {path.name: path for path in self._models()}
        if request.model not in known:
            raise unknown_model(request.model, list(known))
        model, tokenizer = self._load(known[request.model])
        for name, text in (("text", request.text), ("target", request.target)):
            count = 0 if text is None else len(tokenizer(text)["input_ids"])
            if count > TRACE_PIECES:
                raise Problem(
                    422, "too_long", f"{name}: has {count} pieces of words; expected {TRACE_PIECES} at most."
                )
        return view(trace_text(model, tokenizer, request.text, target=request.target), limit=TRACE_BYTES).data

    def _load(self, path: Path) -> tuple[Any, Any]:
        if self._loaded is None or self._loaded[0] != path:
            self._loaded = None  # free its memory first
            self._loaded = (path, *_load(path))
        return self._loaded[1:]

    def _models(self) -> list[Path]:
        if self.folder is None:
            return []
        return [path for path in named_folders(self.folder, "config.json") if any(path.glob("*.safetensors"))]


def _require(folder: Path) -> None:
    if not folder.is_dir():
        raise ConfigError(f"studio: `--allow-folder` has {folder}, which is not a folder; expected one.")
    if find_spec("transformers") is None:
        raise ConfigError(
            "studio: `--allow-folder` needs the package transformers, which is not installed. "
            "Run `pip install transformers`."
        )


def _describe(path: Path) -> dict[str, Any] | None:
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        size = sum(file.stat().st_size for file in path.glob("*.safetensors"))
        kind, writes = str(config["model_type"]), bool(config.get("is_encoder_decoder"))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return {"id": path.name, "type": kind, "writes": writes, "bytes": size}


def _load(path: Path) -> tuple[Any, Any]:
    """Load model and tokenizer; errors of transformers go to the log, not to the client."""
    from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(path, **LOCAL)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModel
        model = kind.from_pretrained(path, config=config, use_safetensors=True, **LOCAL).eval()
        return model, AutoTokenizer.from_pretrained(path, **LOCAL)
    except Exception as error:
        log.error("cannot load", extra={"model": path.name, "error": type(error).__name__})
        raise Problem(
            422,
            "unreadable",
            f"model: has {path.name!r}, which transformers cannot load from safetensors and a tokenizer.",
        ) from None

"""Writes a run as a folder for the Hub: `save_pretrained` of a system.

A packed run is copied unchanged, and its card shows the record's figures. Other runs are written in float32,
and the card says that they were not measured.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch

from regard import hub
from regard.shipped.card import render_card, render_plain_card
from regard.shipped.find import RECORD
from regard.train import serialization
from regard.train.run import Run
from regard.train.run_folder import RunFolder
from regard.train.verified_files import DIGESTS, digest_of_file


def write_folder(run: Run, folder: Path, name: str, card: Mapping[str, Any]) -> None:
    """Write settings, tokenizers, weights, a card for the system `name`, and digests."""
    if run.folder.resolve() != folder.resolve():
        copy_files(run.folder, folder)
    config = run.config
    record = folder / RECORD
    if RunFolder(run.folder).is_packed and record.is_file():
        found = json.loads(record.read_text(encoding="utf-8")) | {"name": name}
        said = {"license": "licence"}  # the record uses British spelling
        found |= {said.get(key, key): text for key, text in card.items()}
        write_json(record, found)
        text = render_card(found)
    else:
        weights = serialization.weights(run.model)
        (folder / hub.WEIGHTS).write_bytes(safetensors.torch.save(weights))
        write_json(folder / "state.json", {"step": run.step})
        size = sum(parameter.numel() for parameter in run.model.parameters())
        text = render_plain_card(name, config.model, config.task, parameters=size, step=run.step, said=card)
    (folder / hub.CARD).write_text(text, encoding="utf-8")
    write_json(folder / hub.CONFIG, {"library_name": "regard", "model": config.model, "task": config.task})
    write_digests(folder)


def copy_files(run: Path, folder: Path) -> None:
    """Copy the files listed in a run's digests: settings, tokenizers, and in a packed run the weights."""
    for name in json.loads((run / DIGESTS).read_text(encoding="utf-8")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run / name, folder / name)


def write_digests(folder: Path) -> None:
    """Write the digest of every file, as the last step."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != DIGESTS)
    digests = {path.relative_to(folder).as_posix(): [digest_of_file(path)] for path in files}
    write_json(folder / DIGESTS, digests)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON in the format of packed runs."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

"""Packs a trained run into one small folder, to ship, publish or keep.

    config.toml format.json …     as in the run folder: settings and tokenizers
    model.safetensors             the weights: int8 (a scale per row or 32 numbers), int10, bfloat16, float32
    state.json                    {"step": 900}
    record.json                   what it was trained on, how, where, when, and how well it does
    README.md                     the same as a model card for the Hub
    digests.json                  SHA-256 of the files above
The weights use the smallest encoding that changes the validation figure by no more than a tolerance; the
figure is the mean over all sizes if there are several. The test figure is measured afterwards. The result is
a run folder: every command and `regard.load` can read it.
"""

import json
import shutil
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch

from regard import catalog, storage
from regard.decode.translator import Translator
from regard.evaluate.base import evaluate
from regard.evaluate.pictures import draw
from regard.evaluate.results import commit, machine
from regard.models.base import Translating
from regard.shipped.card import render_card
from regard.shipped.find import RECORD
from regard.shipped.publish import copy_files, write_digests, write_json
from regard.shipped.table import SENTENCES, Shipped
from regard.tasks.base import Task
from regard.tasks.pictures import PictureTask
from regard.tasks.texts import TextTask
from regard.train import quantization, serialization
from regard.train.checkpoint import WEIGHTS
from regard.train.config import override
from regard.train.quantization import ENCODINGS, Encoding
from regard.train.run import Run, open_run
from regard.train.run_folder import RunFolder

DRAWN = 200  # pictures whose halves are compared
# facts about the training, kept when a packed folder is packed again
KEPT = ("before_packing", "note", "training_seconds", "machine", "date", "commit")


class Figure(NamedTuple):
    """A number and the metric that it measures."""

    metric: str
    value: float


def pack(run: Path, out: Path, row: Shipped, *, device: str | None = None, note: str = "") -> dict[str, Any]:
    """Write a run's best weights and all they need into `out`, which is replaced; returns the record.

    `note` adds to the card what recipe and settings do not say.
    """
    opened = open_run(run, device=device)
    trained, _ = measure(opened)
    tensors = serialization.weights(opened.model)
    encoding, validation = choose_encoding(opened, tensors, row)
    packed, numbers = measure(opened)
    again = json.loads((run / RECORD).read_text(encoding="utf-8")) if (run / RECORD).is_file() else {}
    aside = storage.aside(out)
    aside.mkdir(parents=True)
    try:
        copy_files(run, aside)
        (aside / WEIGHTS).write_bytes(safetensors.torch.save(quantization.encode(tensors, encoding)))
        write_json(aside / "state.json", {"step": opened.step})
        # on a CPU, where the tests measure it again
        on_cpu = Run(opened.config, opened.model.to("cpu"), opened.task, aside, opened.step)
        examples = translations(on_cpu) if isinstance(opened.task, TextTask) else {}
        small = small_figure(on_cpu, row, examples)
        record = {
            "name": out.name,
            "sentence": row.sentence,
            "recipe": row.recipe,
            "settings": list(row.settings),
            "model": opened.config.model,
            "task": opened.config.task,
            "data": row.data,
            "licence": row.licence,
            "limits": row.limits,
            "metric": packed.metric,
            "value": round(packed.value, 4),
            "before_packing": round(trained.value, 4),
            "validation": validation,
            "small": {"metric": small.metric, "value": round(small.value, 4)},
            "examples": examples,
            "numbers": numbers,
            "encoding": encoding,
            "parameters": sum(p.numel() for p in opened.model.parameters()),
            "step": opened.step,
            "training_seconds": training_seconds(run),
            "machine": machine(),
            "date": date.today().isoformat(),
            "commit": commit(),
            **({"note": note} if note else {}),
            **{name: again[name] for name in KEPT if name in again},
        }
        write_json(aside / RECORD, record)
        (aside / "README.md").write_text(render_card(record), encoding="utf-8")
        write_digests(aside)
        if out.exists():
            shutil.rmtree(out)
        aside.rename(out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return record


def choose_encoding(
    run: Run, tensors: serialization.Tensors, row: Shipped
) -> tuple[Encoding, dict[str, float]]:
    """Choose the smallest encoding, from `row.smallest` on, that keeps the validation figure within the
    tolerance; returns it and both figures. The model is left with the decoded weights.
    """
    before = validation_figure(run)
    for encoding in ENCODINGS[ENCODINGS.index(row.smallest) :]:
        packed = quantization.decode(quantization.encode(tensors, encoding))
        serialization.load_weights(run.model, packed)
        value = validation_figure(run)
        if abs(value - before) <= row.tolerance:
            break
    return encoding, {"before": round(before, 4), "value": round(value, 4)}


def validation_figure(run: Run) -> float:
    """The validation headline, averaged over all sizes: what spares one size may hurt the others."""
    return evaluate(run.model, run.task, "valid", decoding=run.config.decode).over_sizes()


def measure(run: Run, task: Task | None = None) -> tuple[Figure, dict[str, Any]]:
    """The headline on the test split, decoded as in the recipe, and all numbers of the evaluation."""
    found = evaluate(run.model, task or run.task, decoding=run.config.decode)
    return Figure(*found.headline()), found.summary()


def small_figure(run: Run, row: Shipped, examples: dict[str, str]) -> Figure:
    """A figure that takes seconds to measure and needs only data that ships with the package.

    For a text model it is the share of `examples` (sentences with translations) that are reproduced.
    """
    if isinstance(run.task, TextTask):
        found = translations(run)
        share = sum(found[source] == text for source, text in examples.items()) / max(len(examples), 1)
        return Figure("sentences translated as recorded", share)
    if isinstance(run.task, PictureTask):  # a distance of pictures needs a classifier, which needs training
        name, share = next(iter(run.task.checks(draw(run.model, run.task, DRAWN)[0]).items()))
        return Figure(name, share)
    settings = override(run.config, row.small).task_settings
    task_class = catalog.find(run.config.task, "task").load()
    return measure(run, task_class.restore(task_class.Settings(**settings), run.folder))[0]


def translations(run: Run) -> dict[str, str]:
    """Our own sentences, translated by the model."""
    model, task = run.model, run.task
    assert isinstance(model, Translating)
    assert isinstance(task, TextTask)
    found = Translator(model, task.source, task.target).translate(list(SENTENCES), run.config.decode)
    return {source: best.text for source, [best, *_] in zip(SENTENCES, found, strict=True)}


def training_seconds(run: Path) -> float | None:
    """The training time, from the last checkpoint."""
    folder = RunFolder(run).find("last")
    if folder is None:
        return None
    seconds = json.loads((folder / "state.json").read_text(encoding="utf-8")).get("seconds")
    return None if seconds is None else round(seconds, 1)


def row_of(name: str, run: Path) -> Shipped:
    """A row for a run outside the table."""
    return Shipped(
        name=name,
        sentence=f"A model trained with regard: {name}.",
        recipe=run.name,
        data="not stated",
        licence="not stated",
        limits="Not stated.",
    )

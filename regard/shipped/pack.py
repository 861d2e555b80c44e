"""A trained run as one small folder: to ship, to publish, to keep.

    config.toml format.json …     as in the run folder: settings and tokenizers
    model.safetensors             the weights: int8 (a scale a row, or for each 32), int10, bfloat16, float32
    state.json                    {"step": 900}
    record.json                   what it was trained on, how, where, when, and how well it does
    README.md                     the same for readers, in the form that the Hub shows
    digests.json                  SHA-256 of each of these

The weights take the fewest bytes that cost no more than a tolerance of the validation figure, which is the
mean over all its sizes where there are several; the test figure is measured afterwards. What is written is a
run folder of its own: every command and `regard.load` read it.
"""

import json
import shutil
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch

from regard import catalog, storage
from regard.decode.translator import Translator
from regard.evaluate.base import Sized, evaluate
from regard.evaluate.pictures import draw
from regard.evaluate.results import commit, machine
from regard.models.base import Translating
from regard.shipped.card import write_card
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
# what is known of the training; a folder that is packed once more keeps it
KEPT = ("before_packing", "note", "training_seconds", "machine", "date", "commit")


class Figure(NamedTuple):
    """One number, and what it measures."""

    metric: str
    value: float


def pack(run: Path, out: Path, row: Shipped, *, device: str | None = None, note: str = "") -> dict[str, Any]:
    """Write a run's best weights and all they need into `out`, which is replaced; the record.

    `note` says for the card what recipe and settings do not.
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
        # on a CPU, as the tests measure it again
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
        write_card(aside / "README.md", record)
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
    """The smallest encoding, of the row's smallest or larger, that changes the validation figure by no more
    than its tolerance; and both figures. The model is left with the weights as they will be read back.
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
    """The headline of the validation split, over all sizes: what spares the first may cost the others."""
    found = evaluate(run.model, run.task, "valid", decoding=run.config.decode)
    return found.over_sizes() if isinstance(found, Sized) else found.headline()[1]


def measure(run: Run, task: Task | None = None) -> tuple[Figure, dict[str, Any]]:
    """The headline of the task's evaluation of the test split, decoded as the recipe says; all numbers."""
    found = evaluate(run.model, task or run.task, decoding=run.config.decode)
    return Figure(*found.headline()), found.summary()


def small_figure(run: Run, row: Shipped, examples: dict[str, str]) -> Figure:
    """A figure that is measured in seconds, without data that does not come with the package.

    Of a model of text it is the share of `examples`, sentences with their translations, that come out again.
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
    """Sentences of our own as the model translates them."""
    model, task = run.model, run.task
    assert isinstance(model, Translating)
    assert isinstance(task, TextTask)
    found = Translator(model, task.source, task.target).translate(list(SENTENCES), run.config.decode)
    return {source: best.text for source, [best, *_] in zip(SENTENCES, found, strict=True)}


def training_seconds(run: Path) -> float | None:
    """How long the run was trained, as its last checkpoint says."""
    folder = RunFolder(run).find("last")
    if folder is None:
        return None
    seconds = json.loads((folder / "state.json").read_text(encoding="utf-8")).get("seconds")
    return None if seconds is None else round(seconds, 1)


def row_of(name: str, run: Path, *, data: str, licence: str) -> Shipped:
    """A row for a run that is not in the table."""
    return Shipped(
        name=name,
        sentence=f"A model trained with regard: {name}.",
        recipe=run.name,
        data=data or "not stated",
        licence=licence or "not stated",
        limits="Not stated.",
    )

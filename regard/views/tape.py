"""A machine at work on one example: its inputs and outputs, and its heads on the tape."""

import math
from pathlib import Path

import torch

from regard.data.bits import BitBatch
from regard.errors import ConfigError, DataError
from regard.models.ntm import NTM, Tape
from regard.tasks.bits import BitTask, Shape, costs
from regard.train.run import Run
from regard.views.shared import draw_figure, whole_number

LARGEST = 2000  # vectors of an example, about: ten times what the paper draws


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Run the machine on one example, of the first tested shape or of the one named (`20`, or `10 3`)."""
    task, model = run.task, run.model
    assert isinstance(task, BitTask)
    if not isinstance(model, NTM):
        raise DataError(f"{run.folder}: model is {run.config.model!r}, which has no tape; expected 'ntm'.")
    shape = task.shapes("test")[0] if text is None else read_shape(task, text)
    batch = task.example(shape)
    with torch.no_grad():
        tape = model.trace(batch.inputs.to(next(model.parameters()).device))
    logits = tape.logits.cpu()
    answers = logits.sigmoid() * batch.counted[..., None]
    wrong = int((((logits > 0) != (batch.targets > 0.5)) & batch.counted[..., None]).sum())
    name = ", ".join(f"{unit} {size}" for unit, size in zip(task.units, shape, strict=True))
    draw(out, title=f"{task.name}, {name}", inputs=batch.inputs[0], outputs=answers[0], tape=tape)
    cost = float(costs(logits, batch).sum())
    bits = int(batch.counted.sum()) * batch.targets.shape[-1]
    return f"{task.name}, {name}: {cost:.2f} bits, {wrong} of {bits} bits wrong{_lap(batch, model)}"


def _lap(batch: BitBatch, model: NTM) -> str:
    """A note if the tape is too short to keep all vectors."""
    read, rows = int((~batch.counted[0]).sum()), model.config.rows
    if read <= rows:
        return ""
    return f"; {read} vectors were read before the answer, but the tape has only {rows} rows"


def draw(out: Path, *, title: str, inputs: torch.Tensor, outputs: torch.Tensor, tape: Tape) -> None:
    """Draw the tape as a picture, or as a page if the file ends in .html."""
    from regard.viz.tape import draw_tape

    draw_figure(
        out,
        lambda path: draw_tape(
            inputs=inputs,
            outputs=outputs,
            adds=tape.adds[0],
            reads=tape.reads[0],
            write_weights=tape.write_weights[0],
            read_weights=tape.read_weights[0],
            title=title,
            path=path,
        ),
        title=title,
        summary="Neural Turing Machine",
        heading="The tape",
        alt="Inputs, outputs, vectors added and read, and the weightings of the heads, step by step.",
    )


def read_shape(task: BitTask, text: str) -> Shape:
    """`10 3` as the shape (10, 3) of the task's examples."""
    wanted = " and ".join(task.units)
    shape = tuple(whole_number(word) or 0 for word in text.split())
    if len(shape) != len(task.units) or min(shape) < 1:
        raise ConfigError(f"show: `TEXT` has {text!r}; expected {wanted} as numbers from 1.")
    if math.prod(shape) > LARGEST:
        product = " × ".join(map(str, shape))
        raise ConfigError(f"show: `TEXT` has {product}; expected at most {LARGEST}, to be drawn.")
    task.check(shape)
    return shape

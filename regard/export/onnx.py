"""A decoding step as two ONNX graphs; the search around them stays in Python.

    encoder.onnx     source (B, S), lengths (B,)                -> the state before the first word
    step.onnx        tokens (B,), the state                     -> log-probabilities (B, V), the state after

The state is a list of tensors whose first axis is the row, so that beam search can reorder all of them alike.
Constant parts of the state are inputs of the step, not outputs. B, S and the number of words written are
dynamic in both graphs; everything is float32.

onnx_steps.py defines each model's state; onnx_runtime.py runs the graphs.

Open Neural Network Exchange. https://onnx.ai
"""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.export.base import Translatable, describe, new_folder
from regard.export.onnx_steps import Axes, Steps, steps_of
from regard.extras import needs

TO = "onnx"
ENCODER, STEP = "encoder.onnx", "step.onnx"


def export(given: Translatable, out: Path) -> Path:
    """Write the folder that `regard translate` reads."""
    needs("export", "onnx", "onnxscript", "onnxruntime")
    steps = steps_of(given.model)
    with new_folder(out) as folder:
        save(steps, folder)
        state = {"constant": list(steps.constant), "changing": list(steps.changing)}
        describe(given, folder, to=TO, longest=steps.longest, state=state)
    return out


class _Begin(nn.Module):
    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, source: Tensor, lengths: Tensor) -> list[Tensor]:
        state = self.steps.begin(source, lengths)
        return [state[name] for name in (*self.steps.constant, *self.steps.changing)]


class _Advance(nn.Module):
    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, tokens: Tensor, state: list[Tensor]) -> list[Tensor]:
        names = (*self.steps.constant, *self.steps.changing)
        log_probabilities, changed = self.steps.advance(tokens, dict(zip(names, state, strict=True)))
        return [log_probabilities, *(changed[name] for name in self.steps.changing)]


def save(steps: Steps, folder: Path) -> None:
    """Write both graphs, traced on a small example with dynamic sizes."""
    axes = {**steps.constant, **steps.changing}
    names = list(axes)
    source, lengths = torch.full((3, 5), 4), torch.tensor([5, 2, 4])
    tokens = torch.tensor([1, 4, 5])
    with torch.no_grad():
        state = steps.begin(source, lengths)
        for _ in range(2):  # sizes 0 and 1 would become static
            state |= steps.advance(tokens, state)[1]
    _write(
        _Begin(steps),
        (source, lengths),
        folder / ENCODER,
        {"source": {0: "rows", 1: "source"}, "lengths": {0: "rows"}},
        {name: {axis: free for axis, free in axes[name].items() if free != "written"} for name in names},
        nested=False,
    )
    _write(
        _Advance(steps),
        (tokens, [state[name] for name in names]),
        folder / STEP,
        {"tokens": {0: "rows"}} | axes,
        {"log_probabilities": {0: "rows"}}
        | {
            f"new_{name}": {a: f"{free}+1" if free == "written" else free for a, free in axes[name].items()}
            for name in steps.changing
        },
        nested=True,
    )


def _write(
    module: nn.Module,
    example: tuple[Any, ...],
    path: Path,
    inputs: Mapping[str, Axes],
    outputs: Mapping[str, Axes],
    *,
    nested: bool,
) -> None:
    import onnx

    free = {axis: torch.export.Dim(axis) for axes in inputs.values() for axis in axes.values()}
    shapes = [{number: free[axis] for number, axis in axes.items()} for axes in inputs.values()]
    with _quiet():
        program = torch.onnx.export(
            module.eval(),
            example,
            dynamo=True,
            dynamic_shapes=(shapes[0], shapes[1:]) if nested else tuple(shapes),
            input_names=list(inputs),
            output_names=list(outputs),
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    for value in proto.graph.output:  # tracing may leave static sizes in outputs
        for number, axis in outputs[value.name].items():
            value.type.tensor_type.shape.dim[number].dim_param = axis
    onnx.save(proto, str(path))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's warnings about its own use of deprecated PyTorch features."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)

"""The training step of whole models, before and after: with the reference, and with the kernels they choose.

    RNNsearch                       one query per step, as in a recurrent decoder
    Transformer, additive heads     every query at once
    Pointer network                 its scores are its output, so they are always needed
    Attention over points           the pointer network's rival, one query per step

Each is its recipe's own model, task and loss, on the longest batch of its first epoch. Parity comes first:
loss and every gradient against float64, by the error rule of `regard.bench.rule`. On a GPU the step is also
measured as captured for training, since launches dominate a plain recurrent step.
"""

import math
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.record import record
from regard.bench.clock import interleaved, peak
from regard.bench.records import common, measured, megabytes, short
from regard.bench.rule import Errors, Verdict
from regard.evaluate.results import Result
from regard.tasks.base import Loss, Task
from regard.train.capture import CapturedStep
from regard.train.config import load_recipe
from regard.train.run import create

COLUMNS = (
    *("model", "recipe", "step", "kernel"),
    *("ms by the reference", "ms", "× reference", "MB", "reference MB"),
)
FEW = ("task.train=2000", "task.valid=16", "task.test=16")


@dataclass(frozen=True)
class Subject:
    """A recipe, and the settings that differ here."""

    name: str
    recipe: str
    settings: tuple[str, ...] = ()
    on_gpu: tuple[str, ...] = ()
    small: tuple[str, ...] = ()  # for a quick look

    def model(self, device: str, *, quick: bool) -> tuple[nn.Module, Task, Any]:
        """The untrained model, the task, and a batch."""
        settings = [
            *self.settings,
            *(self.on_gpu if device == "cuda" else ()),
            *(self.small if quick else ()),
        ]
        config = load_recipe(self.recipe, settings)
        torch.manual_seed(0)
        model, task = create(config)
        plan = task.plan(0, seed=1, batch=config.train.batch)
        return model.to(device), task, longest([task.batch("train", rows) for rows in plan[:20]]).to(device)


def longest(batches: list[Any]) -> Any:
    """The batch with the longest rows among those at least half as large as the largest (no remainders)."""
    most = max(batch.source.numel() for batch in batches)
    full = [batch for batch in batches if 2 * batch.source.numel() >= most]
    return max(full, key=lambda batch: batch.source.shape[1])


POINTS = ("task.train=4000", "task.tests=[5]", "task.valid=16", "task.test=16")
SUBJECTS = (
    Subject(
        "RNNsearch",
        "rnnsearch-en-fr",
        FEW,
        on_gpu=("model.hidden=512", "model.attention.hidden=512", "model.embedding=256", "train.batch=4000"),
        small=("model.hidden=32", "model.attention.hidden=32", "train.batch=500"),
    ),
    Subject(
        "Transformer, additive heads",
        "transformer-en-fr",
        (*FEW, "model.attention.score=additive"),
        on_gpu=("model.d_model=512", "model.d_ff=1024", "model.attention.heads=8", "train.batch=8000"),
        small=("model.d_model=32", "model.d_ff=32", "train.batch=500"),
    ),
    Subject(
        "Pointer network",
        "pointer-hull",
        ("task.shortest=50", "train.batch=64", *POINTS),
        on_gpu=("train.batch=512",),
        small=("model.hidden=32", "train.batch=8"),
    ),
    Subject(
        "Attention over points",
        "attention-hull-50",
        ("train.batch=64", *POINTS),
        on_gpu=("train.batch=512",),
        small=("model.hidden=32", "train.batch=8"),
    ),
)


@dataclass
class Step:
    """The measurements of one model."""

    subject: Subject
    way: str  # "plain" or "captured"
    batch: tuple[int, ...]  # shape of the source
    kernels: tuple[str, ...]
    error: float | None = None  # the largest, as a multiple of the reference's
    ms: dict[str, float] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    broken: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ms["reference"] / self.ms["fused"] if "fused" in self.ms else None


def measure(
    device: str,
    *,
    quick: bool = False,
    deadline: float = math.inf,
    say: Callable[[str], None] = lambda line: None,
) -> list[Step]:
    """Every subject, plain and on a GPU also captured; none starts after `deadline` seconds."""
    found = []
    end = time.monotonic() + deadline
    for subject in SUBJECTS:
        if time.monotonic() > end:
            say(f"{subject.name}: the deadline has passed")
            continue
        try:
            steps = compare(subject, device, quick=quick)
        except Exception as error:  # one failing model must not lose the others' results
            steps = [Step(subject, "plain", (), (), broken=f"failed: {str(error).strip()[:200]}")]
        found += steps
        for step in steps:
            ratio = step.broken or (
                "the reference runs" if step.ratio is None else f"{step.ratio:.2f} times as fast with kernels"
            )
            say(f"{subject.name}, {step.way} step: {ratio}")
    return found


def compare(subject: Subject, device: str, *, quick: bool) -> list[Step]:
    """Parity of loss and gradients, then time and memory."""
    model, task, batch = subject.model(device, quick=quick)
    plain = by_reference(model)
    with record(model) as trace:  # with gradients, as a training step has them
        task.loss(model.eval(), batch)
    kernels = tuple(sorted({result.kernel for results in trace.values() for result in results}))
    shape = tuple(batch.source.shape)
    models = {"reference": plain}
    error = None
    if kernels != ("reference",):
        seen = parity(model, plain, task, batch)
        error = seen.largest
        if seen.broken is not None:
            return [Step(subject, "plain", shape, kernels, error, broken=f"no parity: {seen.broken}")]
        models["fused"] = model
    ways: dict[str, Callable[[nn.Module], Callable[[], Any]]] = {"plain": lambda m: running(m, task, batch)}
    if device == "cuda":
        ways["captured"] = lambda m: captured(m, task, batch)
    found = []
    for way, made in ways.items():
        runs = {name: made(m.train()) for name, m in models.items()}
        step = Step(subject, way, shape, kernels, error)
        step.ms = interleaved(runs, device, budget=0.1 if quick else 0.3 if device == "cuda" else 1.0)
        if way == "plain":
            step.bytes = {name: peak(run, device) for name, run in runs.items()}
        found.append(step)
    return found


def by_reference(model: nn.Module) -> nn.Module:
    """A copy of the model whose attentions all run the reference."""
    plain = deepcopy(model)
    for module in plain.modules():
        if isinstance(module, Attention):
            module.kernel = "reference"
    return plain


def running(model: nn.Module, task: Task, batch: Any) -> Callable[[], Loss]:
    """Forward and backward, accumulating into the gradients of the step before."""

    def run() -> Loss:
        loss = task.loss(model, batch)
        loss.total.backward()  # type: ignore[no-untyped-call]
        return loss

    return run


def captured(model: nn.Module, task: Task, batch: Any) -> Callable[[], Loss]:
    """The same, captured."""

    recorded = CapturedStep(lambda batch: running(model, task, batch)(), model)
    return lambda: recorded(batch)


def parity(model: nn.Module, plain: nn.Module, task: Task, batch: Any) -> Verdict:
    """Loss and gradients of model and reference, both compared with float64, by the kernels' error rule."""
    wide = {f.name: getattr(batch, f.name) for f in fields(batch)}
    floats = {name: x.double() for name, x in wide.items() if isinstance(x, Tensor) and x.is_floating_point()}
    errors = Errors()
    errors.add(
        outcomes(model, task, batch),
        lambda: outcomes(plain, task, batch),
        outcomes(deepcopy(plain).double(), task, replace(batch, **floats)),
        draws=4,
    )
    return errors.verdict()


def outcomes(model: nn.Module, task: Task, batch: Any) -> dict[str, Tensor]:
    """The loss and the gradient of every parameter."""
    model.eval()  # without dropout, which would make the numbers differ
    names, parameters = zip(*((n, p) for n, p in model.named_parameters() if p.requires_grad), strict=True)
    with torch.backends.cudnn.flags(enabled=False):  # cuDNN's RNNs have no backward in eval mode
        loss = task.loss(model, batch).total
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    found = {f"gradient of {n}": g for n, g in zip(names, gradients, strict=True) if g is not None}
    return {"loss": loss.detach(), **found}


def rows(steps: list[Step]) -> list[tuple[str, ...]]:
    """The table to read."""
    return [
        (
            step.subject.name,
            step.subject.recipe,
            step.way,
            step.broken or ", ".join(step.kernels),
            short(step.ms.get("reference")),
            short(step.ms.get("fused")),
            "" if step.ratio is None else f"{step.ratio:.2f}",
            megabytes(step.bytes.get("fused")),
            megabytes(step.bytes.get("reference")),
        )
        for step in steps
    ]


def records(steps: list[Step], device: str) -> list[Result]:
    """One record per model and way, for results/training-steps-DEVICE.json."""
    return [
        measured(
            f"training-steps-{device}",
            f"{step.subject.name}: {step.way} training step, times as fast as by the reference",
            round(1.0 if step.ratio is None else step.ratio, 2),
            seconds=sum(step.ms.values()) / 1000,
            details={
                "catalogue": [],
                "order": order,
                **common(device),
                "model": step.subject.name,
                "recipe": step.subject.recipe,
                "settings": [*step.subject.settings, *(step.subject.on_gpu if device == "cuda" else ())],
                "way": step.way,
                "shape of the source": list(step.batch),
                "kernels": list(step.kernels),
                "error": None if step.error is None else round(step.error, 2),
                "milliseconds": {name: round(value, 3) for name, value in step.ms.items()},
                "megabytes": {name: round(value / 1e6, 2) for name, value in step.bytes.items()},
            },
        )
        for order, step in enumerate(steps)
        if not step.broken
    ]

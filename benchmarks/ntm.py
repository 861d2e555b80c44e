"""A training step of the Neural Turing Machine beside a plain one: one sequence, head and shift at a time.

    python benchmarks/ntm.py                     measures on this machine and prints
    python benchmarks/ntm.py --record            also writes results/ntm-speed.json
    python benchmarks/ntm.py --device cuda       on a GPU also captured as a CUDA graph

The batched one is the reference, `ntm` the same as one operation. All have the same parameters. Before
anything is timed, loss and every gradient of the plain and the batched one are compared in float64, and those
of the one operation with the batched one in float32. All are timed in turns.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from common import RESULTS, arguments
from torch import Tensor, nn

from regard.bench.records import measured
from regard.data.bits import BitBatch
from regard.evaluate.results import write_result
from regard.models.ntm import NTM, NTMConfig
from regard.tasks.base import Loss
from regard.tasks.bits import costs
from regard.tasks.ntm import CopySettings, CopyTask
from regard.train.capture import CapturedStep

LENGTH = 10
Kernel = Literal["reference", "ntm"]
KERNELS: tuple[Kernel, Kernel] = ("ntm", "reference")


def plain_logits(model: NTM, batch: BitBatch) -> Tensor:
    """The same machine, sequence by sequence and head by head, written straight from the paper."""
    return torch.stack([_run_one(model, inputs) for inputs in batch.inputs])


def _run_one(model: NTM, inputs: Tensor) -> Tensor:
    """(T, I) -> (T, O)."""
    start = model.start(1)
    controller, reads = start.controller, start.reads[0]
    cells, at = start.memory.cells[0], [*start.memory.read[0], *start.memory.write[0]]
    R = model.config.read_heads
    out = []
    for x in inputs:
        h, controller = model.controller(torch.cat([x, reads.flatten()])[None], controller)
        heads = _heads(model, h[0])
        at = [_address(cells, w, head) for w, head in zip(at, heads, strict=True)]
        for w, head in zip(at[R:], heads[R:], strict=True):
            cells = cells * (1 - torch.outer(w, head["erase"]))
        for w, head in zip(at[R:], heads[R:], strict=True):
            cells = cells + torch.outer(w, head["add"])
        reads = torch.stack([w @ cells for w in at[:R]])
        out.append(model.output(torch.cat([h[0], reads.flatten()])))
    return torch.stack(out)


def _heads(model: NTM, h: Tensor) -> list[dict[str, Tensor]]:
    """Each head's parameters, from the controller's output."""
    c = model.config
    R, W, M, s = c.read_heads, c.write_heads, c.width, 2 * c.reach + 1
    H = R + W
    words = list(model.heads.speak(h).split([M] * (H + W) + [1] * H + [M] * W + [1] * (2 * H) + [s] * H))
    keys, adds = words[:H], words[H : H + W]
    gates, erases = words[H + W : 2 * H + W], words[2 * H + W : 2 * H + 2 * W]
    strengths, gammas, shifts = (words[2 * H + 2 * W + i * H :][:H] for i in range(3))
    found = [
        {
            "key": torch.tanh(keys[i]),
            "gate": torch.sigmoid(gates[i]),
            "strength": F.softplus(strengths[i]),
            "gamma": 1 + F.softplus(gammas[i]),
            "shifts": shifts[i].softmax(0),
        }
        for i in range(H)
    ]
    for i in range(W):
        found[R + i] |= {"erase": torch.sigmoid(erases[i]), "add": torch.tanh(adds[i])}
    return found


def _address(cells: Tensor, previous: Tensor, head: dict[str, Tensor]) -> Tensor:
    """Equations 5 to 9 for one head."""
    similar = F.cosine_similarity(cells, head["key"][None], dim=1, eps=1e-12)
    content = (head["strength"] * similar).softmax(0)
    gated = head["gate"] * content + (1 - head["gate"]) * previous
    r = len(head["shifts"]) // 2
    moved = sum((gated.roll(d) * head["shifts"][d + r] for d in range(-r, r + 1)), torch.zeros(()))
    assert isinstance(moved, Tensor)
    powers = (moved + 1e-38) ** head["gamma"]
    return powers / powers.sum()


def build(heads: int, device: str, kernel: Kernel = "reference") -> tuple[NTM, CopyTask]:
    """The machine of the copy recipe."""
    torch.manual_seed(1)
    task = CopyTask(CopySettings(longest=LENGTH, shortest=LENGTH, tested=(LENGTH,)))
    config = NTMConfig(**task.sizes(), read_heads=heads, write_heads=heads, kernel=kernel)
    return NTM(config).to(device), task


def compare(heads: int) -> float:
    """The largest relative difference of loss and gradients, in float64."""
    model, task = build(heads, "cpu")
    model.double()
    batch = task.batch("train", range(2))
    batch = replace(batch, inputs=batch.inputs.double(), targets=batch.targets.double())
    return _difference(
        _gradients(model, model(batch), batch), _gradients(model, plain_logits(model, batch), batch)
    )


def compare_kernel(heads: int, device: str) -> float:
    """The same of the machine as one operation, in float32."""
    found = []
    for kernel in KERNELS:
        model, task = build(heads, device, kernel)
        batch = task.batch("train", range(8)).to(device)
        found.append(_gradients(model, model(batch), batch))
    return _difference(*found)


def _gradients(model: NTM, logits: Tensor, batch: BitBatch) -> list[Tensor]:
    """The loss and the gradient of every parameter."""
    loss = F.binary_cross_entropy_with_logits(logits, batch.targets)
    return [loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))]


def _difference(found: list[Tensor], right: list[Tensor]) -> float:
    return max(
        float((a - b).abs().max() / b.abs().max().clamp_min(1e-12)) for a, b in zip(found, right, strict=True)
    )


def time_steps(steps: dict[str, Callable[[], object]], *, repeats: int, device: str) -> dict[str, float]:
    """Seconds per call of each: medians over so many rounds after the first."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats + 1):
        for name, step in steps.items():
            began = time.perf_counter()
            step()
            if device == "cuda":
                torch.cuda.synchronize()
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def training_step(model: NTM, logits: Callable[[BitBatch], Tensor], batch: BitBatch) -> Callable[[], object]:
    """Forward and backward."""

    def step() -> None:
        model.zero_grad()
        (costs(logits(batch), batch).sum() / batch.size).backward()

    return step


def captured(model: nn.Module, task: CopyTask, batch: BitBatch) -> Callable[[], object]:
    """Forward and backward as one captured graph."""

    def step(kept: BitBatch) -> Loss:
        loss = task.loss(model, kept)
        loss.total.backward()
        return loss

    recording = CapturedStep(step, model)
    return lambda: recording(batch)


def main() -> None:
    """Compare, then time."""
    parser = arguments(__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    difference = compare(options.heads)
    print(f"largest relative difference of loss and gradients (float64): {difference:.1e}")
    if not difference < 1e-6:
        raise SystemExit("the two do not agree; nothing was timed.")
    model, task = build(options.heads, options.device)
    batch = task.batch("train", range(options.batch)).to(options.device)
    steps = {
        "plain": training_step(model, lambda given: plain_logits(model, given), batch),
        "batched": training_step(model, model, batch),
    }
    apart = compare_kernel(options.heads, options.device)
    print(f"largest relative difference of the one operation (float32): {apart:.1e}")
    if not apart < 1e-2:
        raise SystemExit("the one operation does not agree; nothing was timed.")
    whole, _ = build(options.heads, options.device, "ntm")
    steps["ntm"] = training_step(whole, whole, batch)
    if options.device == "cuda":
        steps["captured"] = captured(model, task, batch)
        steps["ntm, captured"] = captured(whole, task, batch)
    began = time.perf_counter()
    seconds = time_steps(steps, repeats=options.repeats, device=options.device)
    for name, value in seconds.items():
        print(
            f"{name:17} {1000 * value:9.1f} ms a training step, "
            f"{seconds['plain'] / value:6.1f} times as fast as the plain one"
        )
    if options.record:
        record(options, seconds, difference, time.perf_counter() - began)


def record(options: argparse.Namespace, seconds: dict[str, float], difference: float, taken: float) -> None:
    """Record the ratios with the other results."""
    ratios = {
        "a per-sample one": seconds["plain"] / min(seconds.values()),
        "the reference": seconds["batched"] / seconds["ntm"],
    }
    details = {
        "catalogue": ["memory:ntm-heads", "kernel:ntm"],
        "milliseconds": {name: round(1000 * value, 2) for name, value in seconds.items()},
        "threads": torch.get_num_threads(),
        "load of the machine": round(os.getloadavg()[0], 1),
        "length": LENGTH,
        "heads": options.heads,
        "largest relative difference": difference,
    }
    where = f"({options.device}, batch {options.batch})"
    facts = {"seconds": taken, "note": "the paper gives no times", "seeds": (1,), "details": details}
    records = [
        measured("ntm-speed", f"training step, times {rival} {where}", round(ratio, 2), **facts)
        for rival, ratio in ratios.items()
    ]
    for each in records:  # all made before the first is written, which would make the commit dirty
        write_result(RESULTS, each)


if __name__ == "__main__":
    main()

"""A training step of an LSTMN layer: a plain loop, cached keys, one operation, and a captured graph.

    python benchmarks/lstmn.py                      on the GPU if there is one, else on the CPU
    python benchmarks/lstmn.py --record             also adds a record to results/lstmn-speed.json

plain      past states in lists, stacked and projected again at every step: the naive way
steps      LSTMNCell step by step: every slot is projected once; this path shows its attention
lstmn      the whole recurrence as one operation, what training runs
captured   the same, recorded as a CUDA graph and replayed; GPU only

Parity comes first, in float64: outputs and every gradient of the three are equal, or no speed is printed. A
time is the smallest of several runs, forward and backward, of processor time on a CPU so that the machine's
load does not count; the paths take turns.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from common import arguments, keep
from torch import Tensor

from regard.layers.lstmn import LSTMNCell

Shape = tuple[int, int, int]  # B, T, n
SHAPES: list[Shape] = [(20, 35, 300), (64, 24, 300), (64, 48, 300), (32, 100, 300)]


def plain(cell: LSTMNCell, inputs: Tensor) -> Tensor:
    """The equations in a loop: stack the past, project it, read it."""
    score, n = cell.attention.score, cell.hidden
    W, b, U = cell.W.weight, cell.W.bias, cell.U.weight
    zero = inputs.new_zeros(inputs.shape[0], n)
    past_h, past_c, summary, outputs = [zero], [zero], zero, []
    for t in range(inputs.shape[1]):
        x, h, c = inputs[:, t], torch.stack(past_h, 1), torch.stack(past_c, 1)
        query = x @ W[4 * n :].mT + b[4 * n :] + summary @ U[4 * n :].mT
        energies = torch.tanh(score.U(h) + query[:, None]) @ score.v.weight[0]
        weights = energies.softmax(-1)[..., None]
        summary, memory = (weights * h).sum(1), (weights * c).sum(1)
        both = torch.cat([x, summary], -1) @ torch.cat([W[: 4 * n], U[: 4 * n]], 1).mT + b[: 4 * n]
        i, f, o, candidate = both.chunk(4, -1)
        new_c = f.sigmoid() * memory + i.sigmoid() * candidate.tanh()
        new_h = o.sigmoid() * new_c.tanh()
        past_h.append(new_h)
        past_c.append(new_c)
        outputs.append(torch.cat([new_h, new_c], -1))
    return torch.stack(outputs, 1)


def by_kernel(kernel: str) -> Callable[[LSTMNCell, Tensor], Tensor]:
    """The layer itself, on one of its paths."""

    def run(cell: LSTMNCell, inputs: Tensor) -> Tensor:
        cell.kernel = kernel
        return cell(inputs)

    return run


PATHS = {"plain": plain, "steps": by_kernel("reference"), "lstmn": by_kernel("lstmn")}


def parity(device: str) -> None:
    """Outputs and gradients of all paths agree in float64."""
    cell = LSTMNCell(inputs=24, hidden=32).double().to(device)
    inputs = torch.randn(5, 17, 24, dtype=torch.double, device=device, requires_grad=True)
    outer = torch.randn(5, 17, 64, dtype=torch.double, device=device)
    first = None
    for name, path in PATHS.items():
        found = path(cell, inputs)
        every = [found, *torch.autograd.grad((found * outer).sum(), [inputs, *cell.parameters()])]
        first = first or every
        for a, b in zip(first, every, strict=True):
            if not torch.allclose(a, b, rtol=1e-9, atol=1e-11):
                raise SystemExit(f"no parity: {name} differs from plain by {(a - b).abs().max():.2e}")


def captured(cell: LSTMNCell, inputs: Tensor) -> Callable[[], None]:
    """Capture one training step."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            step(PATHS["lstmn"], cell, inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(PATHS["lstmn"], cell, inputs)
    return graph.replay


def step(path: Callable[[LSTMNCell, Tensor], Tensor], cell: LSTMNCell, inputs: Tensor) -> None:
    """Forward and backward."""
    torch.autograd.grad(path(cell, inputs).sum(), [inputs, *cell.parameters()])


def measure(shape: Shape, device: str, rounds: int) -> dict[str, float]:
    """Milliseconds of a training step on each path."""
    B, T, n = shape
    cell = LSTMNCell(inputs=n, hidden=n).to(device)
    inputs = torch.randn(B, T, n, device=device, requires_grad=True)
    runs: dict[str, Callable[[], None]] = {
        name: (lambda path=path: step(path, cell, inputs)) for name, path in PATHS.items()
    }
    if device == "cuda":
        runs["captured"] = captured(cell, inputs)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            times[name].append(seconds(run, device))
    return {name: 1e3 * min(every[1:]) for name, every in times.items()}


def seconds(run: Callable[[], None], device: str) -> float:
    """The time of one call."""
    if device == "cpu":
        start = time.process_time()
        run()
        return time.process_time() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    """Print a table; record it with --record."""
    parser = arguments(__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    started = time.perf_counter()
    parity(given.device)
    print("parity: outputs and gradients of plain, steps and lstmn agree in float64")
    rows = []
    for shape in SHAPES:
        found = measure(shape, given.device, given.rounds)
        rows.append({"shape": dict(zip("BTn", shape, strict=True)), "milliseconds": found})
        others = "  ".join(
            f"{name} {ms:8.2f} ms, {found['plain'] / ms:5.2f} times"
            for name, ms in found.items()
            if name != "plain"
        )
        print(
            f"B {shape[0]:3} T {shape[1]:3} n {shape[2]}  plain {found['plain']:8.2f} ms  {others}",
            flush=True,
        )
    if given.record:
        record(rows, given.threads, time.perf_counter() - started)


def record(rows: list[dict[str, Any]], threads: int, spent: float) -> None:
    """The gain at the shape where it is smallest, and all times."""
    best = "captured" if "captured" in rows[0]["milliseconds"] else "lstmn"
    gain = min(row["milliseconds"]["plain"] / row["milliseconds"][best] for row in rows)
    keep(
        "lstmn-speed",
        f"times a plain loop, {best}, the smallest of {len(rows)} shapes",
        round(gain, 2),
        seconds=spent,
        note="the paper gives no times",
        details={"catalogue": ["kernel:lstmn"], "threads": threads, "rows": rows},
    )


if __name__ == "__main__":
    main()

"""Additive attention: eager, torch.compile, the fused kernel, and scaled dot product as the yardstick.

    python benchmarks/additive.py                      on the GPU if there is one, else on the CPU
    python benchmarks/additive.py --device cpu --threads 2

Parity comes first: context and gradients of the kernel keep the error rule of `regard.bench.rule` beside the
eager formula, or no speed is printed. Every time is the median of several runs of back-to-back
calls, all in this process; a ratio is of two such times. Elements are B·T·S·D. The ceiling is the rate with
operands in registers and four features to a reciprocal, measured in this process too. On a GPU several
processes compile the formula for its shapes before anything is measured.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from common import RESULTS, arguments, keep
from torch import Tensor

from regard import AdditiveScore, Attention, Mask, Source
from regard.bench.attention import ceiling
from regard.bench.clock import CAPTURED, captured, peak
from regard.bench.preparing import in_parallel
from regard.bench.rule import Errors
from regard.kernels.additive import additive_cuda, additive_step_cuda
from regard.kernels.additive.additive_cuda import ADDITIVE_STEP_CUDA, STEP

NONE = (None, None, None, None, 0, 1.0)
Shape = tuple[int, int, int, int, int]  # B, T, S, D, Dv
BF16, F32 = torch.bfloat16, torch.float32
LARGE: tuple[tuple[Shape, torch.dtype, bool], ...] = (  # on a GPU: shape, precision, with the backward pass
    ((16, 512, 512, 256, 128), BF16, False),
    ((8, 1024, 1024, 256, 128), BF16, False),
    ((4, 2048, 2048, 128, 128), BF16, False),
    ((8, 1024, 1024, 256, 128), BF16, True),
    ((1280, 1, 66, 1024, 1024), F32, False),  # the shapes of PyTorch's own benchmark
    ((1280, 1, 66, 1024, 1024), F32, True),
    ((128, 10, 128, 1024, 1024), F32, False),
    ((128, 10, 128, 1024, 1024), F32, True),
)
STEPS = ((1, 100, 256), (1, 1000, 1000), (16, 1000, 1000), (128, 50, 512), (128, 1000, 1000))  # B, S, D

measured_ceiling = cache(ceiling)  # once for all shapes


class NoParity(Exception):
    """The kernel breaks the error rule, so nothing is measured."""


def eager(a: Tensor, b: Tensor, v: Tensor, values: Tensor) -> Tensor:
    """The formula written out, scores in float32."""
    wide = torch.float64 if a.dtype == torch.float64 else torch.float32
    hidden = torch.tanh(a.to(wide)[:, :, None] + b.to(wide)[:, None])
    weights = F.linear(hidden, v.to(wide)[None]).squeeze(-1).softmax(-1)
    return (weights @ values.to(wide)).to(values.dtype)


def fused(a: Tensor, b: Tensor, v: Tensor, values: Tensor) -> Tensor:
    """The kernel that Attention would choose."""
    if a.is_cuda and a.shape[1] <= STEP:
        return additive_step_cuda.step(a, None, b, v, values, *NONE)
    if a.is_cuda:
        return additive_cuda.attended(a, None, b, v, values, NONE)
    return torch.ops.regard.additive(a, b, v, values, *NONE)


def operands(shape: Shape, dtype: torch.dtype, device: str) -> list[Tensor]:
    """a, b, v, values."""
    B, T, S, D, Dv = shape
    sizes = ((B, T, D), (B, S, D), (D,), (B, S, Dv))
    a, b, v, values = (torch.randn(*size, device=device, dtype=dtype) for size in sizes)
    return [a, b, v * (2 * D**-0.5), values]


def with_gradient(run: Callable[..., Tensor], inputs: list[Tensor], grad: Tensor) -> list[Tensor]:
    """The context and the gradients of a, b, v, values."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    context = run(*inputs)
    return [context.detach(), *torch.autograd.grad(context, inputs, grad.to(context.dtype))]


def parity(shape: Shape, dtype: torch.dtype, device: str) -> dict[str, float]:
    """The kernel's error as a multiple of the eager formula's; raises if it breaks the error rule."""
    inputs = operands(shape, dtype, device)
    grad = torch.randn(shape[0], shape[1], shape[4], device=device).to(dtype)
    names = ("context", "a", "b", "v", "values")

    def outcomes(run: Callable[..., Tensor], inputs: list[Tensor]) -> dict[str, Tensor]:
        return dict(zip(names, with_gradient(run, inputs, grad), strict=True))

    errors = Errors()
    truth = outcomes(eager, [x.double() for x in inputs])
    errors.add(outcomes(fused, inputs), lambda: outcomes(eager, inputs), truth, draws=2)
    verdict = errors.verdict()
    if verdict.broken is not None:
        raise NoParity(f"no parity at {shape} {dtype}: {verdict.broken}")
    return verdict.ratios


def seconds(run: Callable[[], Any], device: str, *, budget: float) -> float:
    """Median time of a call among back-to-back calls."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(2):
        run()
    wait()
    start = time.perf_counter()
    run()
    wait()
    once = time.perf_counter() - start
    calls = max(1, min(50, int(budget / 5 / once)))
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls):
            run()
        wait()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def compare(
    shape: Shape, dtype: torch.dtype, device: str, *, train: bool, budget: float, plain: bool
) -> dict[str, Any]:
    """One row: all implementations on one shape."""
    B, T, S, D, _ = shape
    inputs = operands(shape, dtype, device)
    grad = torch.randn_like(fused(*inputs))
    torch.compiler.reset()
    runs = {"eager": eager, "compile": torch.compile(eager), "fused": fused}
    if not plain:
        del runs["compile"]
    row: dict[str, Any] = {"shape": shape, "dtype": str(dtype)[6:], "train": train, "ms": {}, "peak MB": {}}
    for name, run in runs.items():

        def call(run: Callable[..., Tensor] = run) -> Any:
            return with_gradient(run, inputs, grad) if train else run(*inputs)

        row["ms"][name] = 1e3 * seconds(call, device, budget=budget)
        if name == "fused" and device == "cuda":
            row["captured ms"] = {name: 1e3 * seconds(captured(call), device, budget=budget) / CAPTURED}
        if device == "cuda":
            row["peak MB"][name] = peak(call, device) / 2**20
    a, b, values = inputs[0], inputs[1], inputs[3]
    yardstick = [x[:, None] for x in (a, b, values)]
    row["ms"]["dot (SDPA)"] = 1e3 * seconds(
        lambda: F.scaled_dot_product_attention(*yardstick), device, budget=budget / 4
    )
    rate = B * T * S * D / row["ms"]["fused"] * 1e3
    row["elements/s"] = rate
    if device == "cuda" and not train:
        rate = B * T * S * D / row["captured ms"]["fused"] * 1e3
        most, source = measured_ceiling()
        row |= {"elements/s, captured": rate, "ceiling": {"elements/s": most, "from": source}}
        row["share of ceiling"] = None if most is None else rate / most
    row["ratio"] = {n: t / row["ms"]["fused"] for n, t in row["ms"].items() if n in ("eager", "compile")}
    return row


def step(B: int, S: int, D: int, dtype: torch.dtype, *, train: bool) -> dict[str, Any]:
    """One decoder step through Attention: projection of the query, attention, and the gradients of all.

    Called as it stands, the host sets the pace of small steps; captured as a CUDA graph of several steps, as
    `regard train` does where a recipe says so, the GPU does.
    """
    score = AdditiveScore(query=D, keys=D, hidden=D).to("cuda", dtype)
    query = torch.randn(B, 1, D, device="cuda", dtype=dtype, requires_grad=train)
    keys, values = (torch.randn(B, S, D, device="cuda", dtype=dtype, requires_grad=train) for _ in range(2))
    source = Source(keys, values, Mask())
    leaves = [query, keys, values, score.W.weight, score.v.weight]
    grad = torch.randn(B, 1, D, device="cuda", dtype=dtype)
    found: dict[str, Any] = {"ms": {}, "captured ms": {}}
    contexts = []
    for name, kernel in (("eager", "reference"), ("fused", ADDITIVE_STEP_CUDA.name)):
        attention = Attention(score, kernel=kernel)

        def act(attention: Attention = attention) -> Any:
            context = attention(query, source).context
            return torch.autograd.grad(context, leaves, grad) if train else context

        with torch.set_grad_enabled(train):
            contexts.append(attention(query, source).context.detach())
            found["ms"][name] = 1e3 * seconds(act, "cuda", budget=0.15)
            found["captured ms"][name] = 1e3 * seconds(captured(act), "cuda", budget=0.1) / CAPTURED
    apart = (contexts[0] - contexts[1]).abs().max()
    if not apart < 0.05:
        raise NoParity(f"no parity at step {(B, S, D)}: {apart:.2e}")
    ms, replayed = found["ms"], found["captured ms"]
    ratio = {"eager": ms["eager"] / ms["fused"], "eager, captured": replayed["eager"] / replayed["fused"]}
    return {"shape": (B, 1, S, D), "dtype": str(dtype)[6:], "train": train, **found, "ratio": ratio}


def call(function: Callable[..., Any], *arguments: Any) -> None:
    """Run what the measuring process will call, so that Triton's kernels are compiled on disk."""
    function(*arguments)


def one_step(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    """Compile a decoder step with its gradients before it is measured."""
    B, S, D = shape
    query, b, v, values = (x.requires_grad_() for x in operands((B, 1, S, D, D), dtype, "cuda"))
    W = torch.randn(D, D, dtype=dtype, device="cuda", requires_grad=True)
    additive_step_cuda.step(query, W, b, v, values, *NONE).sum().backward()


def compile_one(shape: Shape, dtype: torch.dtype, train: bool) -> None:
    """Call the compiled formula once, so that the measuring process finds it compiled."""
    inputs = operands(shape, dtype, "cuda")
    run = torch.compile(eager)
    grad = torch.randn_like(fused(*inputs))
    if train:
        with_gradient(run, inputs, grad)
    else:
        run(*inputs)


def on_gpu() -> Iterator[dict[str, Any]]:
    """The rows of the GPU report."""
    for shape, dtype, train in LARGE:
        yield compare(shape, dtype, "cuda", train=train, budget=0.2, plain=True)
    for dtype in (F32, BF16):
        for B, S, D in STEPS:
            for train in (False, True):
                yield step(B, S, D, dtype, train=train)


def on_cpu() -> Iterator[dict[str, Any]]:
    """The rows of the CPU report."""
    for train in (False, True):
        yield compare((2, 512, 512, 256, 128), torch.float32, "cpu", train=train, budget=4.0, plain=not train)


def main() -> None:
    """Check parity, then measure, print and write."""
    parser = arguments(__doc__)
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--processes", type=int, default=min(8, os.cpu_count() or 1), help="that compile beforehand for a GPU"
    )
    parser.add_argument("--prepare", action="store_true", help="compile, and measure nothing")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the records")
    options = parser.parse_args()
    device = options.device
    torch.set_num_threads(options.threads)
    shapes = [(2, 65, 200, 100, 17), (2, 300, 130, 64, 128), (2, 17, 1000, 256, 64)]
    shapes += [(3, 1, 300, 64, 64)] if device == "cuda" else []
    dtypes = (F32, BF16, torch.float16) if device == "cuda" else (F32,)
    if device == "cuda" and options.processes:
        jobs: list[tuple[Any, ...]] = [(compile_one, *row) for row in LARGE]
        jobs += [(parity, shape, dtype, device) for shape in shapes for dtype in dtypes]
        jobs += [(one_step, shape, dtype) for shape in STEPS for dtype in (F32, BF16)]
        late = in_parallel(call, jobs, workers=options.processes, seconds=60.0)
        print(f"{late.count(None)} of {len(jobs)} compiled beforehand", flush=True)
    if options.prepare:
        return
    checked = [parity(s, t, device) for s in shapes for t in dtypes]
    worst = max(max(ratios.values()) for ratios in checked)
    print(f"parity: at most {worst:.2f} times the eager formula's error, in {len(checked)} cases")
    threads = None if device == "cuda" else options.threads
    for order, row in enumerate(on_gpu() if device == "cuda" else on_cpu()):
        times = "  ".join(f"{n} {t:.3f}" for n, t in row["ms"].items())
        ratios = "  ".join(f"{r:.1f}x {n}" for n, r in row["ratio"].items())
        rates = [f"{row[name] / 1e9:.1f} G {name}" for name in row if name.startswith("elements/s")]
        extra = "".join(f"  {rate}" for rate in rates)
        memory = "  ".join(f"{n} {m:.0f} MB" for n, m in row.get("peak MB", {}).items())
        print(f"{title(row)}: {times} ms;  {ratios}{extra}  {memory}", flush=True)
        keep(
            f"additive-{device}",
            f"{title(row)}: times as fast as eager",
            round(row["ratio"]["eager"], 2),
            seconds=sum(row["ms"].values()) / 1e3,
            details=row | {"error, times eager's": round(worst, 2), "threads": threads, "order": order},
            folder=options.out,
        )


def title(row: dict[str, Any]) -> str:
    """The measured sizes: B, T, S, D and perhaps Dv, or B, 1, S, D of a step."""
    kind = "forward and backward" if row["train"] else "forward"
    return f"{' × '.join(map(str, row['shape']))}, {row['dtype']}, {kind}"


if __name__ == "__main__":
    try:
        main()
    except NoParity as error:
        raise SystemExit(str(error)) from error

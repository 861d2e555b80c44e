"""Fused kernels against the reference, on this machine: parity first, then time and ratio over the length.

    python benchmarks/kernels.py [--threads 1]

Self-attention of 4 sequences with 64 features, forward and backward, float32. Each time is the median of
several runs in this process; a ratio is of two such times. Writes results/kernels.json and pictures.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch

from regard import AdditiveScore, Attention, DotScore
from regard.evaluate.results import Result, commit, machine, write_result
from regard.viz.curves import draw_training

ROOT = Path(__file__).parents[1]
LENGTHS = (32, 64, 128, 256, 512)
B, D = 4, 64
SCORES: dict[str, Callable[[], torch.nn.Module]] = {
    "sdpa": DotScore,
    "additive-cpu": lambda: AdditiveScore(query=D, keys=D, hidden=D),
}


def run(attention: Attention, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Context, and the gradient of its sum of squares."""
    x = x.clone().requires_grad_()
    context = attention(x, attention.prepare(x)).context
    context.square().sum().backward()
    assert x.grad is not None
    return context.detach(), x.grad


def seconds(attention: Attention, x: torch.Tensor) -> float:
    """The median of seven runs after two."""
    times = []
    for _ in range(9):
        started = time.perf_counter()
        run(attention, x)
        times.append(time.perf_counter() - started)
    return statistics.median(times[2:])


def measure(name: str, threads: int) -> None:
    """Check parity at every length, then time both."""
    torch.manual_seed(0)
    score = SCORES[name]()
    fused, plain = Attention(score, kernel=name), Attention(score, kernel="reference")  # type: ignore[arg-type]
    took: dict[str, list[float]] = {name: [], "reference": []}
    for length in LENGTHS:
        x = torch.randn(B, length, D)
        for found, expected in zip(run(fused, x), run(plain, x), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
        took[name].append(1000 * seconds(fused, x))
        took["reference"].append(1000 * seconds(plain, x))
    ratio = took["reference"][-1] / took[name][-1]
    print(f"{name}: {ratio:.1f} times the reference at length {LENGTHS[-1]}, {threads} thread(s)")
    picture = ROOT / "docs" / "pictures" / f"kernel-{name}.png"
    curves = {key: (list(LENGTHS), values) for key, values in took.items()}
    draw_training(curves, picture, xlabel="length", ylabel="milliseconds", log=True)
    picture.with_suffix(".txt").write_text(
        f"Forward and backward of self-attention, {B} sequences, {D} features, {threads} thread(s).\n",
        encoding="utf-8",
    )
    write_result(
        ROOT / "results",
        Result(
            recipe="kernels",
            metric=f"{name}: times as fast as the reference, length {LENGTHS[-1]}, forward and backward",
            value=round(ratio, 2),
            paper_value=None,
            paper_note="a ratio in one run on this machine",
            seconds=round(sum(map(sum, took.values())) / 1000, 2),
            machine=machine(),
            date=date.today().isoformat(),
            commit=commit(),
            seeds=(0,),
            details={
                "catalogue": [f"kernel:{name}"],
                "threads": threads,
                "lengths": list(LENGTHS),
                "milliseconds": {key: [round(value, 3) for value in values] for key, values in took.items()},
            },
        ),
    )


def main() -> None:
    """Measure every kernel that runs here."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args().threads
    torch.set_num_threads(threads)
    for name in SCORES:
        measure(name, threads)


if __name__ == "__main__":
    main()

"""Fused kernels against the reference, on this machine: parity first, then time and ratio over the length.

    python benchmarks/kernels.py [--threads 1]

Self-attention of 4 sequences with 64 features, forward and backward, float32. Each time is the median of
rounds in which both run by turns; a ratio is of two such times. Writes results/kernels.json and pictures.
"""

from collections.abc import Callable

import torch
from common import PICTURES, arguments, caption, keep

from regard import AdditiveScore, Attention, DotScore
from regard.bench.clock import interleaved
from regard.viz.curves import draw_training

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
        both = {name: fused, "reference": plain}
        found = interleaved({key: lambda a=a, x=x: run(a, x) for key, a in both.items()}, "cpu")  # type: ignore[misc]
        for key, milliseconds in found.items():
            took[key].append(milliseconds)
    ratio = took["reference"][-1] / took[name][-1]
    print(f"{name}: {ratio:.1f} times the reference at length {LENGTHS[-1]}, {threads} thread(s)")
    curves = {key: (list(LENGTHS), values) for key, values in took.items()}
    picture = PICTURES / f"kernel-{name}.png"
    draw_training(curves, picture, xlabel="length", ylabel="milliseconds", log=True)
    caption(
        picture.stem,
        f"Forward and backward of self-attention, {B} sequences, {D} features, {threads} thread(s).",
    )
    keep(
        "kernels",
        f"{name}: times as fast as the reference, length {LENGTHS[-1]}, forward and backward",
        round(ratio, 2),
        seconds=sum(map(sum, took.values())) / 1000,
        details={
            "catalogue": [f"kernel:{name}"],
            "threads": threads,
            "lengths": list(LENGTHS),
            "milliseconds": {key: [round(value, 3) for value in values] for key, values in took.items()},
        },
    )


def main() -> None:
    """Measure every kernel that runs here."""
    parser = arguments(__doc__)
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args().threads
    torch.set_num_threads(threads)
    for name in SCORES:
        measure(name, threads)


if __name__ == "__main__":
    main()

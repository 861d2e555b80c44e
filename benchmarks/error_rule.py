"""The error rule of `regard.bench.rule` on thousands of random problems, for every kernel that runs on a CPU.

    python benchmarks/error_rule.py                                   4,000 problems, minutes on one core
    ATEN_CPU_CAPABILITY=avx2 python benchmarks/error_rule.py          with other vector instructions

Shapes, scores, normalizers, windows, masks, temperatures, precisions and magnitudes are drawn; each problem
is judged alone. For the context and each gradient the table has the kernel's error as a multiple of the
formula's, and the share of the allowed jitter that it takes beyond twice the formula's error: the rule holds
if that is at most 1. Writes results/error-rule.json and exits with 1 if a problem breaks the rule.
"""

import math
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import torch
from common import RESULTS, arguments, keep
from torch import Tensor, nn

from regard import (
    AdditiveScore,
    Attention,
    CosineScore,
    DivideByLength,
    DotScore,
    FeedForwardScore,
    GeneralScore,
    LocalMonotonic,
    LocalPredictive,
    Mask,
    Mean,
    Softmax,
    Sparsemax,
)
from regard.attention.normalizers.base import Normalizer
from regard.attention.windows.base import Window
from regard.bench.records import versions
from regard.bench.rule import DRAWS, FACTOR, HALF_UNITS, UNITS, Errors, Verdict
from regard.kernels.additive import additive_cpu, additive_scores
from regard.kernels.local import local_attention, local_cpu
from regard.kernels.product import blocks, linear
from regard.kernels.sparsemax import sparsemax_cpu

PRODUCTS = ("dot", "scaled-dot", "general", "cosine", "cosine of the query", "feed-forward")
DTYPES = (torch.float32, torch.float32, torch.bfloat16, torch.float16)


class Kind(NamedTuple):
    """A kernel and one of its variants: what it accepts, and the settings that select it."""

    kernel: str
    scores: tuple[str, ...]
    normalizer: str = "softmax"
    windows: tuple[str, ...] = ("none",)
    settings: tuple[tuple[Any, str, Any], ...] = ()
    least: int = 1  # queries
    by_query: bool = True  # the mask may show queries different positions


LOOPS = (additive_cpu, "SMALL", 0)
TENSORS = (additive_cpu, "compiled", lambda: None)
ALWAYS = ((local_attention, "LEAST", 0), (local_attention, "LAUNCHES", 0))
SMALL = ((linear, "fewer_products", lambda call: False),)
WINDOWS = ("local-m", "local-p", "the mask's")
KINDS = {
    "additive-cpu, loops": Kind("additive-cpu", ("additive",), settings=(LOOPS,), least=4),
    "additive-cpu, tensors": Kind("additive-cpu", ("additive",), settings=(LOOPS, TENSORS), least=4),
    "additive-scores, loops": Kind(
        "additive-scores", ("additive",), settings=(LOOPS, (additive_scores, "SMALL", 0)), least=4
    ),
    "additive-scores, tensors": Kind(
        "additive-scores", ("additive",), settings=(LOOPS, TENSORS, (additive_scores, "SMALL", 0)), least=4
    ),
    "sdpa": Kind("sdpa", PRODUCTS),
    "sparsemax of products": Kind("sparsemax", PRODUCTS, "sparsemax"),
    "sparsemax of products, few weights": Kind(
        "sparsemax",
        PRODUCTS,
        "sparsemax",
        settings=tuple((sparsemax_cpu, name, 0) for name in ("FEW", "FEW_BACKWARD", "SMALL")),
    ),
    "sparsemax of products, tensors": Kind(
        "sparsemax", PRODUCTS, "sparsemax", settings=((sparsemax_cpu, "compiled", lambda: None),)
    ),
    "sparsemax of additive scores, loops": Kind("sparsemax", ("additive",), "sparsemax", settings=(LOOPS,)),
    "sparsemax of additive scores, tensors": Kind(
        "sparsemax", ("additive",), "sparsemax", settings=(LOOPS, TENSORS)
    ),
    "sparsemax in windows": Kind("sparsemax", (*PRODUCTS, "additive"), "sparsemax", WINDOWS),
    "local, loops": Kind("local", PRODUCTS, windows=WINDOWS, settings=ALWAYS),
    "local, gathered": Kind(
        "local",
        (*PRODUCTS, "additive"),
        windows=WINDOWS,
        settings=(*ALWAYS, (local_cpu, "compiled", lambda: None)),
    ),
    "blocks": Kind(
        "blocks", (*PRODUCTS, "additive"), settings=((blocks, "LARGE", 0), (blocks, "CELLS", 200)), least=2
    ),
    "mean": Kind("mean", (*PRODUCTS, "additive"), "mean", by_query=False),
    "divide by length": Kind(
        "divide-by-length", PRODUCTS, "divide-by-length", settings=SMALL, by_query=False
    ),
}


class Problem(NamedTuple):
    """A problem for a kernel."""

    kind: Kind
    attention: Attention  # with the kernel
    inputs: list[Tensor]  # query, keys, values
    mask: Mask
    direction: Tensor  # gradients are those of the context's product with it


def make(kind: Kind, seed: int) -> Problem:
    """A random problem for a kernel; a seed gives the same on every machine."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)

    def size(most: int, least: int = 1) -> int:
        return max(least, round(math.exp(rng.uniform(0.0, math.log(most)))))

    def randn(*shape: int, scale: float = 1.0, shift: float = 0.0) -> Tensor:
        return (torch.randn(*shape, generator=generator) * scale + shift).to(dtype)

    dtype = rng.choice(DTYPES)
    half = dtype != torch.float32
    B, T, S = rng.randint(1, 3), size(48, kind.least), size(100)
    D, Dv, hidden = size(64), size(32), size(64)
    window = rng.choice(kind.windows)
    score = rng.choice(kind.scores)
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        attention = Attention(
            scores(score, D, hidden),
            normalizer=normalizers(kind.normalizer, rng.choice((0.3, 1.0, 2.0))),
            window=windows(window, D, hidden, rng.randint(0, 6)),
            kernel=kind.kernel,
            keep_weights=kind.kernel == "additive-scores",
        )
    strength = rng.choice((0.3, 1.0, 4.0))
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter *= strength
    scale, spread = math.exp(rng.uniform(-2.0, 1.0)), rng.choice((0.01, 1.0, 10.0))
    shift, offset = rng.choice((0.0, 0.0, 3.0)), rng.choice((0.0, 1.0))
    # PyTorch's kernels lose gradients under what all keys or all values share (docs/explanation/kernels.md)
    if half:
        shift, offset = 0.0, offset if spread >= 1.0 else 0.0
    inputs = [
        randn(B, T, D, scale=scale),
        randn(B, S, D, scale=scale, shift=shift),
        randn(B, S, Dv, scale=spread, shift=offset),
    ]
    mask = masks(rng, generator, B, T, S, narrow=window == "the mask's", dense=kind.kernel != "local")
    if not kind.by_query:
        dense = None if mask.dense is None else mask.dense[:, :1]
        mask = Mask(lengths=mask.lengths, dense=dense)
    return Problem(kind, attention.to(dtype), inputs, mask, randn(B, T, Dv))


def scores(name: str, D: int, hidden: int) -> Any:
    """A score for queries and keys of D features."""
    made: dict[str, Callable[[], nn.Module]] = {
        "dot": lambda: DotScore(1.0),
        "scaled-dot": DotScore,
        "general": lambda: GeneralScore(query=D, keys=D),
        "cosine": lambda: CosineScore(strength=3.0),
        "cosine of the query": lambda: CosineScore(query=D),
        "feed-forward": lambda: FeedForwardScore(dim=D, hidden=hidden),
        "additive": lambda: AdditiveScore(query=D, keys=D, hidden=hidden),
    }
    return made[name]()


def normalizers(name: str, temperature: float) -> Normalizer:
    """A normalizer; only softmax has a temperature."""
    others = {"sparsemax": Sparsemax, "mean": Mean, "divide-by-length": DivideByLength}
    return others[name]() if name in others else Softmax(temperature=temperature)


def windows(name: str, D: int, hidden: int, half_width: int) -> Window | None:
    """A window; the mask's own is not part of the attention."""
    if name == "local-m":
        return LocalMonotonic(half_width=half_width)
    if name == "local-p":
        return LocalPredictive(query=D, hidden=hidden, half_width=max(1, half_width))
    return None


def masks(
    rng: random.Random, generator: torch.Generator, B: int, T: int, S: int, *, narrow: bool, dense: bool
) -> Mask:
    """Each property of a mask with some probability, including rows that see nothing."""
    some = torch.rand(B, rng.choice((1, T)), S, generator=generator) < 0.7
    return Mask(
        causal=rng.random() < 0.3,
        lengths=torch.randint(0, S + 1, (B,), generator=generator) if rng.random() < 0.3 else None,
        window=(rng.randint(0, 9), rng.randint(0, 9)) if narrow or rng.random() < 0.2 else None,
        dense=some if dense and rng.random() < 0.2 else None,
        offset=rng.choice((0, 0, 0, 5)),
    )


@contextmanager
def set_to(settings: tuple[tuple[Any, str, Any], ...]) -> Iterator[None]:
    """Set constants of the kernels for the duration of a problem."""
    before = [getattr(module, name) for module, name, _ in settings]
    try:
        for module, name, value in settings:
            setattr(module, name, value)
        yield
    finally:
        for (module, name, _), value in zip(settings, before, strict=True):
            setattr(module, name, value)


def outcomes(problem: Problem, kernel: str, dtype: torch.dtype) -> dict[str, Tensor]:
    """The context and every gradient."""
    attention = deepcopy(problem.attention).to(dtype)
    attention.kernel = kernel
    leaves = [x.to(dtype).requires_grad_() for x in problem.inputs]
    with set_to(problem.kind.settings) if kernel != "reference" else nullcontext():
        result = attention(leaves[0], attention.prepare(leaves[1], leaves[2], problem.mask))
        assert result.kernel == kernel
        names = ["query", "keys", "values", *(name for name, _ in attention.named_parameters())]
        wanted = [*leaves, *attention.parameters()]
        grads = torch.autograd.grad(
            result.context, wanted, problem.direction.to(result.context.dtype), allow_unused=True
        )
    found = {f"gradient of {n}": g for n, g in zip(names, grads, strict=True) if g is not None}
    return {"context": result.context.detach(), **found}


def judge(problem: Problem) -> Verdict:
    """The kernel's errors by the rule."""
    errors = Errors()
    dtype = problem.inputs[0].dtype
    errors.add(
        outcomes(problem, problem.kind.kernel, dtype),
        lambda: outcomes(problem, "reference", dtype),
        outcomes(problem, "reference", torch.float64),
    )
    return errors.verdict()


def describe(problem: Problem) -> str:
    """A problem in a line."""
    attention, (query, keys, _) = problem.attention, problem.inputs
    parts = (attention.score, attention.normalizer, attention.window)
    names = "+".join(type(part).__name__ for part in parts if part is not None)
    return f"{names} {str(query.dtype)[6:]} {tuple(query.shape)} {tuple(keys.shape)}"


def quantile(values: list[float], share: float) -> float:
    """The smallest value that this share of them does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def main() -> None:
    """Judge, print, record."""
    parser = arguments(__doc__)
    parser.add_argument("--problems", type=int, default=4000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first problem")
    parser.add_argument("--kernels", default="", help="words of the kinds to judge, all for none")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the record")
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    kinds = {name: kind for name, kind in KINDS.items() if options.kernels in name}
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    shares: dict[tuple[str, str], list[float]] = defaultdict(list)
    broken = []
    for seed in range(options.first, options.first + options.problems):
        name = list(kinds)[seed % len(kinds)]
        problem = make(kinds[name], seed)
        verdict = judge(problem)
        key = (name, str(problem.inputs[0].dtype)[6:])
        ratios[key] += verdict.ratios.values()
        shares[key] += verdict.shares.values()
        if verdict.broken is not None:
            broken.append(f"{name}, seed {seed}, {describe(problem)}: {verdict.broken}")
            print(broken[-1], flush=True)
    rows = []
    for key in sorted(ratios):
        error = {f"{q:g}": round(quantile(ratios[key], q), 2) for q in (0.5, 0.99, 1.0)}
        jitter = {f"{q:g}": round(quantile(shares[key], q), 3) for q in (0.99, 1.0)}
        rows.append(
            {
                "kernel": key[0],
                "dtype": key[1],
                "tensors": len(ratios[key]),
                "error, times the formula's": error,
                "share of the jitter": jitter,
            }
        )
        print(
            f"{key[0]:38} {key[1]:9} {len(ratios[key]):6}  error "
            f"{'  '.join(f'{x:6.2f}' for x in error.values())}  "
            f"jitter {'  '.join(f'{x:.3f}' for x in jitter.values())}"
        )
    isa = os.environ.get("ATEN_CPU_CAPABILITY") or torch.backends.cpu.get_cpu_capability().lower()
    most = max(max(found) for found in shares.values())
    print(
        f"{options.problems} problems, {isa}: {len(broken)} break the rule; "
        f"at most {most:.2f} of the jitter is taken"
    )
    keep(
        "error-rule",
        f"largest share of the allowed jitter that an error takes, {isa}",
        round(most, 3),
        seconds=time.perf_counter() - began,
        note="the rule holds up to 1",
        seeds=(options.first,),
        details={
            "catalogue": [],
            "rule": f"error <= {FACTOR:g} times the formula's + its jitter",
            "roundings": {"float32": UNITS, "half precision": HALF_UNITS},
            "problems": options.problems,
            "broken": broken,
            "draws": DRAWS,
            "instructions": isa,
            "kernels": rows,
            "versions": versions(),
        },
        folder=options.out,
    )
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    main()

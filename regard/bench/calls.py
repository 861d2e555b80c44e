"""The cost of one call, next to a module written by hand for the same arithmetic.

    additive          softmax(tanh(W q + U k) · v) @ values, with keys projected beforehand
    multi-head        torch.nn.MultiheadAttention, without and with its weights

For all queries at once on a GPU, the module is also compiled, and the ratio is to the faster of the two.
Small calls are where a library loses: a decoder makes thousands of them, each a few dozen microseconds long.
Both sides have the same parameters, inputs and mask, and their outputs are compared before anything is timed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead
from regard.attention.scores.additive import AdditiveScore
from regard.bench.clock import interleaved
from regard.bench.parity import apart
from regard.bench.records import common, measured
from regard.evaluate.results import Result
from regard.models.from_torch import multi_head_from

COLUMNS = ("call", "pass", "B × T × S × D", "dtype", "kernel", "µs by hand", "µs compiled", "µs", "ratio")
SIDES = ("by hand", "compiled", "ours")
HEADS = {64: 4, 256: 4, 512: 8}


class HandWritten(nn.Module):
    """Additive attention as a user would write it: projected keys and an additive mask are inputs."""

    def __init__(self, score: AdditiveScore) -> None:
        super().__init__()
        self.W, self.v = score.W, score.v

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, D), (B, S, D), (B, S, D), (B, 1, S) -> context (B, T, D) and weights (B, T, S)."""
        scores = self.v(torch.tanh(self.W(query)[:, :, None] + keys[:, None])).squeeze(-1)
        weights = torch.softmax(scores + bias, -1)
        return weights @ values, weights


class Sides(NamedTuple):
    """Two ways to the same tensors, and the kernel that ours uses."""

    by_hand: Callable[[], tuple[Tensor, ...]] | None  # None: there is no counterpart
    ours: Callable[[], tuple[Tensor, ...]]
    leaves: list[Tensor]  # whose gradients a training call computes, parameters included
    kernel: str
    compiled: Callable[[], tuple[Tensor, ...]] | None = None  # theirs by torch.compile


@dataclass(frozen=True)
class Contest:
    """One call in one size."""

    name: str
    size: tuple[int, int, int, int]  # B, T, S, D
    make: Callable[["Contest", str], Sides]
    dtype: torch.dtype = torch.float32
    training: bool = False
    compiles: bool = False


@dataclass
class Cost:
    """The measurements of one contest."""

    contest: Contest
    kernel: str
    ms: dict[str, float] = field(default_factory=dict)
    broken: str = ""

    @property
    def ratio(self) -> float | None:
        """Our time over that of the module written by hand, compiled if that is faster."""
        theirs = [self.ms[side] for side in ("by hand", "compiled") if side in self.ms]
        return self.ms["ours"] / min(theirs) if theirs else None


def additive(contest: Contest, device: str) -> Sides:
    """One decoder step over a source with lengths, or all queries at once."""
    B, T, S, D = contest.size
    options: dict[str, Any] = {"device": device, "dtype": contest.dtype}
    score = AdditiveScore(query=D, keys=D, hidden=D).to(**options)
    attention, hand = Attention(score), HandWritten(score)
    query, annotations = torch.randn(B, T, D, **options), torch.randn(B, S, D, **options)
    lengths = torch.full((B,), S, device=device)
    lengths[B // 2 :] = max(1, S - 3)
    with torch.no_grad():  # once per sentence, not per step, so not part of the measurement
        source = attention.prepare(annotations, mask=Mask(lengths=lengths))
    hidden = torch.arange(S, device=device) >= lengths[:, None, None]
    bias = torch.zeros(B, 1, S, **options).masked_fill(hidden, -torch.inf)
    with torch.set_grad_enabled(contest.training):
        kernel = attention.explain(query, source).kernel
    given = query, source.keys, source.values, bias  # the source's values, zeroed where hidden
    if contest.compiles:
        torch.compiler.reset()  # otherwise the last sizes hit the recompile limit of `forward`
    fast = torch.compile(hand, dynamic=False) if contest.compiles else None
    return Sides(
        lambda: hand(*given)[:1],
        lambda: (attention(query, source).context,),
        [query, source.keys, source.values, *score.W.parameters(), *score.v.parameters()],
        kernel,
        None if fast is None else lambda: fast(*given)[:1],
    )


def multi_head(contest: Contest, device: str, ask: str = "context") -> Sides:
    """Self-attention with the projections of `nn.MultiheadAttention`, which also returns weights per head.

    `ask` is what is read: "context", also "weights", or also "top", the largest.
    """
    B, T, _, D = contest.size
    options: dict[str, Any] = {"device": device, "dtype": contest.dtype}
    theirs = nn.MultiheadAttention(D, HEADS[D], batch_first=True, **options).train(contest.training)
    ours: MultiHead = multi_head_from(theirs).to(**options).train(contest.training)
    x = torch.randn(B, T, D, **options)

    def by_hand() -> tuple[Tensor, ...]:
        context, weights = theirs(x, x, x, need_weights=ask == "weights", average_attn_weights=False)
        return (context,) if weights is None else (context, weights)

    def asked() -> tuple[Tensor, ...]:
        result = ours(x)
        if ask == "weights":
            return result.context, result.weights
        return (result.context, *result.top(8)) if ask == "top" else (result.context,)

    with torch.set_grad_enabled(contest.training):
        kernel = ours(x).kernel
    return Sides(
        None if ask == "top" else by_hand, asked, [x, *theirs.parameters(), *ours.parameters()], kernel
    )


with_weights = partial(multi_head, ask="weights")  # those of every head
with_top = partial(multi_head, ask="top")  # the eight largest of every row

STEP, ALL, HEAD = "additive, one query", "additive, all queries", "multi-head"
ON_CPU = (
    Contest(STEP, (1, 1, 20, 64), additive),
    Contest(STEP, (8, 1, 30, 128), additive),
    Contest(STEP, (64, 1, 50, 256), additive),
    Contest(STEP, (1, 1, 20, 64), additive, training=True),
    Contest(STEP, (8, 1, 30, 128), additive, training=True),
    Contest(ALL, (8, 30, 30, 128), additive),
    Contest(ALL, (8, 30, 30, 128), additive, training=True),
    Contest(HEAD, (1, 20, 20, 64), multi_head),
    Contest(HEAD, (8, 128, 128, 256), multi_head),
    Contest(HEAD, (1, 20, 20, 64), multi_head, training=True),
    Contest(HEAD, (8, 128, 128, 256), multi_head, training=True),
    Contest("multi-head with weights", (1, 20, 20, 64), with_weights),
    Contest("multi-head with weights", (8, 128, 128, 256), with_weights),
    Contest("multi-head with top(8)", (8, 128, 128, 256), with_top),
)
ON_GPU = tuple(
    Contest(name, size, make, torch.bfloat16, training)
    for name, size, make, training in (
        (STEP, (8, 1, 30, 128), additive, False),
        (STEP, (64, 1, 1024, 256), additive, False),
        (STEP, (64, 1, 1024, 256), additive, True),
        (HEAD, (8, 128, 128, 256), multi_head, False),
        (HEAD, (8, 1024, 1024, 512), multi_head, False),
        (HEAD, (8, 1024, 1024, 512), multi_head, True),
        ("multi-head with weights", (8, 1024, 1024, 512), with_weights, False),
        ("multi-head with top(8)", (8, 1024, 1024, 512), with_top, False),
    )
) + tuple(
    Contest(ALL, size, additive, torch.bfloat16, training, compiles=True)
    for size in ((8, 1024, 1024, 256), (16, 512, 512, 256), (4, 2048, 2048, 128))
    for training in (False, True)
)


def measure(
    device: str, *, budget: float = 0.5, say: Callable[[str], None] = lambda line: None
) -> list[Cost]:
    """Every call for this device: compare outputs, then time, about `budget` seconds for each side."""
    found = []
    for contest in ON_GPU if device == "cuda" else ON_CPU:
        torch.manual_seed(0)
        with torch.set_grad_enabled(contest.training):
            cost = compare(contest, device, budget)
        found.append(cost)
        ratio = "nothing to compare with" if cost.ratio is None else f"{cost.ratio:.2f} of the others' time"
        say(f"{contest.name}, {_size(contest)}, {_pass(contest)}: {cost.broken or ratio}")
    return found


def compare(contest: Contest, device: str, budget: float) -> Cost:
    """Compare the outputs of both sides, then time them."""
    sides = contest.make(contest, device)
    cost = Cost(contest, sides.kernel)
    others = {"by hand": sides.by_hand, "compiled": sides.compiled}
    runs = {"ours": sides.ours} | {side: run for side, run in others.items() if run is not None}
    for run in list(runs.values())[1:]:
        for ours, theirs in zip(sides.ours(), run(), strict=True):
            cost.broken = cost.broken or apart(ours, theirs) or ""
    if cost.broken:
        return cost
    if contest.training:
        for leaf in sides.leaves:
            leaf.requires_grad_()
        runs = {name: _trained(run, sides.leaves) for name, run in runs.items()}
    cost.ms = interleaved(runs, device, budget=budget)
    return cost


def _trained(run: Callable[[], tuple[Tensor, ...]], leaves: list[Tensor]) -> Callable[[], Any]:
    def step() -> None:
        run()[0].sum().backward()  # type: ignore[no-untyped-call]
        for leaf in leaves:  # like an optimizer's zero_grad, so that nothing accumulates
            leaf.grad = None

    return step


def rows(costs: list[Cost]) -> list[tuple[str, ...]]:
    """The table to read."""
    return [
        (
            cost.contest.name,
            _pass(cost.contest),
            _size(cost.contest),
            str(cost.contest.dtype).removeprefix("torch."),
            cost.broken or cost.kernel,
            *(f"{1000 * cost.ms[side]:.0f}" if side in cost.ms else "" for side in SIDES),
            "" if cost.ratio is None else f"{cost.ratio:.2f}",
        )
        for cost in costs
    ]


def records(costs: list[Cost], device: str) -> list[Result]:
    """One record per call, for results/calls-DEVICE.json."""
    return [
        measured(
            f"calls-{device}",
            f"{cost.contest.name}, {_size(cost.contest)}, {_pass(cost.contest)}: "
            + ("microseconds" if cost.ratio is None else "time over that of the module written by hand"),
            round(1000 * cost.ms["ours"] if cost.ratio is None else cost.ratio, 2),
            seconds=sum(cost.ms.values()) / 1000,
            details={
                "catalogue": [],
                "order": order,
                **common(device),
                "call": cost.contest.name,
                "pass": _pass(cost.contest),
                "size": list(cost.contest.size),
                "dtype": str(cost.contest.dtype).removeprefix("torch."),
                "kernel": cost.kernel,
                "microseconds": {name: round(1000 * value, 1) for name, value in cost.ms.items()},
            },
        )
        for order, cost in enumerate(costs)
        if not cost.broken
    ]


def _pass(contest: Contest) -> str:
    return "forward and backward" if contest.training else "forward, no gradients"


def _size(contest: Contest) -> str:
    return " × ".join(str(n) for n in contest.size)

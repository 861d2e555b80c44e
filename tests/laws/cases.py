"""The whole catalogue, built at prime sizes: what the laws are stated over."""

from dataclasses import dataclass, replace
from itertools import product

import torch
from built import built
from torch import Tensor

from regard import Attention, AttentionResult, History, Mask, catalog
from regard.attention.forms import Product
from regard.attention.parts import Sizes
from regard.attention.scores.base import HistoryScore

B, T, S, DQ, DK, DV, HIDDEN = 2, 3, 7, 5, 11, 17, 13  # prime sizes: a swapped axis cannot hide

SCORES = catalog.names("score")
NORMALIZERS = catalog.names("normalizer")
WINDOWS = catalog.names("window")

# what the laws must know of a mechanism, its class says
KINDS = ("score", "normalizer", "window")
PARTS = {row.key: row.load() for kind in KINDS for row in catalog.rows(kind)}
SAME_SIZE = tuple(key for key, part in PARTS.items() if part.equal_sizes)
HISTORY = tuple(key for key in SCORES if issubclass(PARTS[key], HistoryScore))
FUSED = {key: "sdpa" for key in SCORES if getattr(PARTS[key], "FORM", None) is Product}
STOCHASTIC = tuple(key for key in NORMALIZERS if PARTS[key].stochastic)
CHOOSING = tuple(key for key in NORMALIZERS if PARTS[key].one_hot)


@dataclass(frozen=True)
class Case:
    score: str
    normalizer: str = "softmax"
    window: str = "global"
    kernel: str = "auto"

    def __str__(self) -> str:
        return "+".join((self.score, self.normalizer, self.window, self.kernel))

    @property
    def positional(self) -> bool:
        return PARTS[self.score].positional or PARTS[self.window].positional

    @property
    def runs_on(self) -> str:
        """The kernel that runs the case on a CPU."""
        if self.kernel != "auto" or self.window != "global":
            return "reference"
        if self.normalizer == "mean" and getattr(PARTS[self.score], "FORM", None) is not None:
            return "mean"
        settled = self.normalizer in ("softmax", "gumbel-softmax")  # at evaluation the second draws nothing
        return FUSED.get(self.score, "reference") if settled else "reference"

    @property
    def fused(self) -> bool:
        return self.runs_on != "reference"

    @property
    def sums_to_one(self) -> bool:
        return PARTS[self.window].sums_to_one and PARTS[self.normalizer].sums_to_one

    @property
    def soft(self) -> bool:
        """Small changes of the scores make small changes of the weights."""
        return self.normalizer not in CHOOSING


def unique(cases: list[Case]) -> list[Case]:
    return list(dict.fromkeys(cases))


# every score with every normalizer and window; the fused ones once more by the reference. Left out is what is
# the same again: concat is built as the additive score is, the mean ignores the scores it is given, and to
# divide by a count is the same whatever is divided
EVERY = [Case(*parts) for parts in product(SCORES, NORMALIZERS, WINDOWS)]
PRODUCT = [
    case
    for case in EVERY
    if (case.score != "concat" or case == Case("concat"))
    and (case.normalizer != "mean" or case.score in ("dot", "location", "coverage"))
    and (case.normalizer != "divide-by-length" or case.score in ("dot", "rectified", "coverage"))
    and (case.score != "rectified" or case.normalizer in ("softmax", "divide-by-length"))
]
PRODUCT += [replace(case, kernel="reference") for case in PRODUCT if case.fused]

# each mechanism at least once, for laws that take time
EACH = unique(
    [Case(score) for score in SCORES]
    + [Case("dot", kernel="reference")]
    + [Case("scaled-dot", normalizer) for normalizer in NORMALIZERS]
    + [Case(score, window=window) for score in ("general", "location-aware") for window in WINDOWS]
    + [Case("additive", "sparsemax", "local-predictive")]
)


@dataclass(frozen=True)
class Inputs:
    query: Tensor
    keys: Tensor
    values: Tensor
    history: History | None

    def map(self, function) -> "Inputs":
        history = None if self.history is None else History(*map(function, self.history))
        return Inputs(function(self.query), function(self.keys), function(self.values), history)

    def leaves(self) -> list[Tensor]:
        return [self.query, self.keys, self.values]

    def requires_grad(self) -> "Inputs":
        query, keys, values = (x.detach().clone().requires_grad_() for x in self.leaves())
        return replace(self, query=query, keys=keys, values=values)

    def source(self, function) -> "Inputs":
        """Change the source axis: of keys and values (-2) and of the history (-1)."""
        history = None
        if self.history is not None:
            history = History(*(function(x.mT).mT for x in self.history))
        return replace(self, keys=function(self.keys), values=function(self.values), history=history)


def sizes(case: Case, **changes: int) -> Sizes:
    keys = DQ if case.score in SAME_SIZE else DK
    fields = {"query": DQ, "keys": keys, "hidden": HIDDEN, "positions": 19}
    return Sizes(**(fields | {"half_width": 2, "filters": 3, "width": 3} | changes))


def build(case: Case, dtype: torch.dtype = torch.float64, *, dropout: float = 0.0) -> Attention:
    attention = built(
        case.score,
        sizes(case),
        normalizer=case.normalizer,
        window=case.window,
        dropout=dropout,
        kernel=case.kernel,
    )
    return attention.to(dtype).eval()


def inputs(
    case: Case, *, lead: tuple[int, ...] = (B,), t: int = T, s: int = S, dtype: torch.dtype = torch.float64
) -> Inputs:
    keys = DQ if case.score in SAME_SIZE else DK
    history = None
    if case.score in HISTORY:
        previous = torch.randn(*lead, 1, s, dtype=dtype).softmax(-1)
        history = History(previous, previous + torch.rand(*lead, 1, s, dtype=dtype))
    return Inputs(
        torch.randn(*lead, t, DQ, dtype=dtype),
        torch.randn(*lead, s, keys, dtype=dtype),
        torch.randn(*lead, s, DV, dtype=dtype),
        history,
    )


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def call(
    attention: Attention, x: Inputs, mask: Mask | Tensor | None = None, *, at: int = 0
) -> AttentionResult:
    """One call; what is drawn is drawn from the same seed each time."""
    source = attention.prepare(x.keys, x.values, mask)
    source = source.at(at) if at else source
    return attention(x.query, source, history=x.history, generator=seeded())


def parametrize(cases: list[Case]):
    import pytest

    return pytest.mark.parametrize("case", cases, ids=str)

"""Attention from the keys of the catalogue: what recipes, the command line and the law tests use.

Three literal tables, one line a mechanism. In Python code the classes themselves are the better way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from regard.attention.compose import Attention
from regard.attention.normalizers.base import HistoryNormalizer, Normalizer
from regard.attention.normalizers.divide_by_length import DivideByLength
from regard.attention.normalizers.gumbel import GumbelSoftmax
from regard.attention.normalizers.hard import Hard, StraightThrough
from regard.attention.normalizers.mean import Mean
from regard.attention.normalizers.softmax import Softmax
from regard.attention.normalizers.sparsemax import Sparsemax
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.base import HistoryScore, Score
from regard.attention.scores.cosine import CosineScore
from regard.attention.scores.coverage import CoverageScore
from regard.attention.scores.dot import DotScore
from regard.attention.scores.feedforward import FeedForwardScore
from regard.attention.scores.general import GeneralScore
from regard.attention.scores.location import LocationScore
from regard.attention.scores.location_aware import LocationAwareScore
from regard.attention.scores.rectified import RectifiedScore
from regard.attention.windows.base import Window
from regard.attention.windows.everywhere import Everywhere
from regard.attention.windows.local_monotonic import LocalMonotonic
from regard.attention.windows.local_predictive import LocalPredictive
from regard.catalog import suggest
from regard.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the mechanisms of the tables below are built from; each takes what it needs."""

    query: int
    keys: int
    hidden: int
    positions: int = 128  # location: the longest source it scores
    half_width: int = 10  # local windows: D of the paper
    filters: int = 10  # location-aware: as in Chorowski's experiments
    width: int = 15  # location-aware: width of each filter
    temperature: float = 1.0  # softmax, Gumbel-softmax

    def same(self, name: str) -> int:
        """The common size of query and keys, for scores that multiply them directly."""
        if self.query != self.keys:
            raise ConfigError(
                f"{name}: `query` has size {self.query} and `keys` {self.keys}; expected equal sizes. "
                "The general score compares vectors of different sizes."
            )
        return self.query


def _dot(dim: int, *, scale: float | None) -> DotScore:
    """A dot product has no parameters; its size was only checked."""
    return DotScore(scale)


SCORES: dict[str, Callable[[Sizes], Score | HistoryScore]] = {
    "dot": lambda z: _dot(z.same("dot"), scale=1.0),
    "scaled-dot": lambda z: _dot(z.same("scaled-dot"), scale=None),
    "general": lambda z: GeneralScore(query=z.query, keys=z.keys),
    "additive": lambda z: AdditiveScore(query=z.query, keys=z.keys, hidden=z.hidden),
    "concat": lambda z: AdditiveScore(query=z.query, keys=z.keys, hidden=z.hidden),
    "rectified": lambda z: RectifiedScore(query=z.query, keys=z.keys),
    "cosine": lambda z: CosineScore(query=z.same("cosine")),
    "location": lambda z: LocationScore(query=z.query, positions=z.positions),
    "feedforward": lambda z: FeedForwardScore(dim=z.same("feedforward"), hidden=z.hidden),
    "location-aware": lambda z: LocationAwareScore(
        query=z.query, keys=z.keys, hidden=z.hidden, filters=z.filters, width=z.width
    ),
    "coverage": lambda z: CoverageScore(query=z.query, keys=z.keys, hidden=z.hidden),
}

NORMALIZERS: dict[str, Callable[[Sizes], Normalizer | HistoryNormalizer]] = {
    "softmax": lambda z: Softmax(temperature=z.temperature),
    "sparsemax": lambda z: Sparsemax(),
    "hard": lambda z: Hard(),
    "straight-through": lambda z: StraightThrough(),
    "gumbel-softmax": lambda z: GumbelSoftmax(temperature=z.temperature),
    "mean": lambda z: Mean(),
    "divide-by-length": lambda z: DivideByLength(),
}

WINDOWS: dict[str, Callable[[Sizes], Window]] = {
    "global": lambda z: Everywhere(),
    "local-monotonic": lambda z: LocalMonotonic(half_width=z.half_width),
    "local-predictive": lambda z: LocalPredictive(query=z.query, hidden=z.hidden, half_width=z.half_width),
}


def build_score(name: str, sizes: Sizes) -> Score | HistoryScore:
    """A score by its catalogue key."""
    return _entry("score", SCORES, name)(sizes)


def build_normalizer(name: str, sizes: Sizes) -> Normalizer | HistoryNormalizer:
    """A normalizer by its catalogue key."""
    return _entry("normalizer", NORMALIZERS, name)(sizes)


def build_window(name: str, sizes: Sizes) -> Window:
    """A window by its catalogue key."""
    return _entry("window", WINDOWS, name)(sizes)


def build_attention(
    score: str,
    sizes: Sizes,
    *,
    normalizer: str = "softmax",
    window: str = "global",
    dropout: float = 0.0,
    kernel: str = "auto",
    keep_weights: bool = False,
) -> Attention:
    """Attention from three catalogue keys."""
    return Attention(
        build_score(score, sizes),
        normalizer=build_normalizer(normalizer, sizes),
        window=build_window(window, sizes) if window != "global" else None,
        dropout=dropout,
        kernel=kernel,
        keep_weights=keep_weights,
    )


def _entry(kind: str, table: dict[str, T], name: str) -> T:
    if name not in table:
        raise ConfigError(f"attention: unknown {kind} {name!r}; {suggest(name, tuple(table))}")
    return table[name]

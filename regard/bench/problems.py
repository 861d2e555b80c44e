"""What is measured: mechanisms of the catalogue, each with inputs of one size in one precision.

    name                        score, normalizer, window, heads, queries
    additive                    the score alone: softmax, everything visible, as many queries as keys
    additive, one query         a step of a recurrent decoder
    scaled-dot, 4 heads         one more leading axis
    general, local-predictive   another window or normalizer

Scores that look back at earlier steps (location-aware, coverage) run one query at a time, as in their papers.
Inputs are random; keys are prepared beforehand, since that is done once per source.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard import catalog
from regard.attention.compose import Attention
from regard.attention.config import AttentionConfig
from regard.attention.history import History
from regard.attention.scores.base import HistoryScore
from regard.attention.source import Source
from regard.errors import ConfigError

STEP = 8  # factor on the rows if each has one query: a batch of sentences, not of texts


@dataclass(frozen=True)
class Mechanism:
    """A score, a normalizer and a window by their catalogue keys, and the shape of their calls."""

    score: str
    normalizer: str = "softmax"
    window: str = "global"
    heads: int = 1
    queries: int | None = None  # None: as many as there are keys
    widening: int = 1  # hidden features of the score, as a multiple of the keys' features
    hidden: int | None = None  # or their number, directly
    growing: bool = False  # also measure growth over the length

    @property
    def name(self) -> str:
        parts = [*self.words]
        parts += [f"{self.heads} heads"] if self.heads > 1 else []
        parts += ["one query"] if self.queries == 1 else []
        parts += [f"{self.hidden} features"] if self.hidden is not None else []
        return ", ".join(parts)

    @property
    def words(self) -> tuple[str, ...]:
        """Its names for `--mechanisms`."""
        special = [key for key in (self.normalizer, self.window) if key not in ("softmax", "global")]
        return (self.score, *special)

    @property
    def catalogue(self) -> list[str]:
        """The rows of the catalogue that a measurement is about: its special parts, else the score."""
        special = [f"normalizer:{self.normalizer}"] if self.normalizer != "softmax" else []
        special += [f"window:{self.window}"] if self.window != "global" else []
        return special or [f"score:{self.score}"]


# in order of interest: the last ones may miss the deadline
MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism("additive", widening=2, growing=True),
    Mechanism("additive", queries=1, widening=2),
    Mechanism("additive", hidden=32),  # few enough to unroll for FlexAttention
    Mechanism("scaled-dot", growing=True),
    Mechanism("scaled-dot", "sparsemax", growing=True),
    Mechanism("general", window="local-predictive", growing=True),
    Mechanism("general", window="local-monotonic", growing=True),
    Mechanism("additive", heads=4, widening=2),
    Mechanism("additive", window="local-predictive", widening=2),
    Mechanism("additive", "sparsemax", widening=2),
    Mechanism("general"),
    Mechanism("dot"),
    Mechanism("cosine"),
    Mechanism("feedforward"),
    Mechanism("scaled-dot", heads=4),
    Mechanism("location-aware", queries=1, widening=2),
    Mechanism("coverage", queries=1, widening=2),
    Mechanism("location"),
    Mechanism("rectified"),
    Mechanism("scaled-dot", "hard"),
    Mechanism("scaled-dot", "straight-through"),
    Mechanism("scaled-dot", "gumbel-softmax"),
    Mechanism("scaled-dot", "mean"),
    Mechanism("scaled-dot", "divide-by-length"),
)
# every other score of the catalogue; concat is the same as additive
MECHANISMS += tuple(
    Mechanism(score)
    for score in catalog.names("score")
    if score != "concat" and score not in {each.score for each in MECHANISMS}
)


def chosen(words: tuple[str, ...]) -> tuple[Mechanism, ...]:
    """The mechanisms that these words name, by score, normalizer or window; no words mean all."""
    known = tuple(dict.fromkeys(word for mechanism in MECHANISMS for word in mechanism.words))
    for word in words:
        if word not in known:
            raise ConfigError(f"bench: --mechanisms has {word!r}; {catalog.suggest(word, known)}")
    return tuple(m for m in MECHANISMS if not words or set(words) & set(m.words))


@dataclass(frozen=True)
class Size:
    """The size of a problem; T = S = N unless the mechanism has fewer queries."""

    B: int
    N: int
    D: int

    def __str__(self) -> str:
        return f"{self.B} × {self.N} × {self.D}"


@dataclass(frozen=True, eq=False)
class Problem:
    """A mechanism with its inputs."""

    mechanism: Mechanism
    size: Size
    parts: Attention
    query: Tensor  # (B, [H,] T, D)
    source: Source
    history: History | None

    def attention(self, kernel: str) -> Attention:
        """The same parts with this kernel."""
        made = Attention(
            self.parts.score, normalizer=self.parts.normalizer, window=self.parts.window, kernel=kernel
        )
        return made.eval()

    def context(self, attention: Attention) -> Tensor:
        """The context of one call."""
        return attention(self.query, self.source, history=self.history).context

    def call(self, kernel: str, *, training: bool) -> Callable[[], Any]:
        """A function that runs one call with a kernel, and its gradients if `training`."""
        attention = self.attention(kernel)
        return self.passed(lambda: self.context(attention), training=training)

    def passed(self, run: Callable[[], Tensor], *, training: bool) -> Callable[[], Any]:
        """The forward pass, with the backward pass if `training`."""
        if not training:
            return run
        leaves = list(self.leaves().values())
        direction = torch.randn_like(self.query)  # values are as wide as queries
        return lambda: torch.autograd.grad(run(), leaves, direction, allow_unused=True)

    def leaves(self) -> dict[str, Tensor]:
        """All tensors that may receive a gradient, by name."""
        own = {"query": self.query, "keys": self.source.keys, "values": self.source.values}
        return own | dict(self.parts.named_parameters())

    def exact(self) -> "Problem":
        """The same problem in float64."""
        history = None if self.history is None else History(*(x.double() for x in self.history))
        keys, values = (_leaf(x.double()) for x in (self.source.keys, self.source.values))
        source = replace(self.source, keys=keys, values=values)
        parts = deepcopy(self.parts).double()
        return replace(self, parts=parts, query=_leaf(self.query.double()), source=source, history=history)

    @property
    def features(self) -> int:
        """Features of the prepared keys."""
        return self.source.keys.shape[-1]

    @property
    def cells(self) -> int:
        """Products or quotients in a forward pass: B·T·S·D over the prepared features."""
        return self.query[..., 0].numel() * self.source.S * self.features

    def fused(self) -> tuple[str | None, str]:
        """The kernel that runs it, and how it was chosen or why there is none."""
        found = self.attention("auto").explain(self.query, self.source, history=self.history)
        return (None, found.why) if found.kernel == "reference" else (found.kernel, "auto")


def make(mechanism: Mechanism, size: Size, device: str, dtype: torch.dtype, *, seed: int = 0) -> Problem:
    """A problem with random inputs and parameters, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    B, N, D = size.B * STEP if mechanism.queries == 1 else max(1, size.B // mechanism.heads), size.N, size.D
    lead = (B,) if mechanism.heads == 1 else (B, mechanism.heads)
    config = AttentionConfig(
        mechanism.score,
        normalizer=mechanism.normalizer,
        window=mechanism.window,
        hidden=mechanism.hidden or D * mechanism.widening,
        positions=N,
    )
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        parts = config.build(query=D, keys=D)
    parts = parts.to(device, dtype).eval()

    def randn(length: int) -> Tensor:
        return torch.randn(*lead, length, D, generator=generator).to(device, dtype)

    query, keys, values = randn(mechanism.queries or N), randn(N), randn(N)
    with torch.no_grad():
        source = parts.prepare(keys, values)
    source = replace(source, keys=_leaf(source.keys), values=_leaf(values))
    history = None
    if isinstance(parts.score, HistoryScore):
        previous = torch.randn(*lead, 1, N, generator=generator).softmax(-1).to(device)
        history = History(previous, 2 * previous)
    return Problem(mechanism, size, parts, _leaf(query), source, history)


def _leaf(x: Tensor) -> Tensor:
    return x.detach().clone().requires_grad_()

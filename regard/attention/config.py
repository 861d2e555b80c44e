"""The attention mechanism of a model as settings: the table [model.attention] of a recipe.

    attention = AttentionConfig("general", window="local-monotonic", half_width=5)
    attention.build(query=256, keys=512)

A model's Config has one, with the defaults of its paper. Code without settings uses `Attention` directly.
"""

from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any

from regard import catalog
from regard.attention.compose import Attention
from regard.attention.parts import Part, Sizes
from regard.errors import ConfigError, check_finite, check_sizes


@dataclass(frozen=True)
class AttentionConfig:
    """A score, a normalizer and a window by their catalogue keys, with their sizes."""

    score: str
    _: KW_ONLY
    normalizer: str = "softmax"
    window: str = "global"
    heads: int | None = None  # None: as many as the model has
    hidden: int | None = None  # units of the score's network and of local-p's; None: the size of the query
    half_width: int = 10  # local windows: D of the paper
    positions: int | None = None  # location: the longest source it scores; None: the model's own
    filters: int = 10  # location-aware: kernels over the previous alignment
    width: int = 15  # location-aware: their width
    temperature: float = 1.0  # softmax, gumbel-softmax
    kernel: str = "auto"

    def __post_init__(self) -> None:
        check_sizes("attention", self, "heads", "hidden", "positions", "filters", "width")
        check_finite("attention", above=0.0, temperature=self.temperature)

    def build(self, *, query: int, keys: int, positions: int = 128, keep_weights: bool = False) -> Attention:
        """The attention for a query and keys of these sizes, which are those of one head."""
        sizes = Sizes(
            query=query,
            keys=keys,
            hidden=self.hidden or query,
            positions=self.positions or positions,
            half_width=self.half_width,
            filters=self.filters,
            width=self.width,
            temperature=self.temperature,
        )
        return Attention(
            build_part("score", self.score, sizes),
            normalizer=build_part("normalizer", self.normalizer, sizes),
            # None means the same as the global window, and can be fused
            window=build_part("window", self.window, sizes) if self.window != "global" else None,
            kernel=self.kernel,
            keep_weights=keep_weights,
        )


def build_part(kind: catalog.Kind, key: str, sizes: Sizes) -> Any:
    """A score, normalizer or window by its catalogue key."""
    row = catalog.find(key, kind, owner="attention")
    part: type[Part] = row.load()
    if part.equal_sizes and sizes.query != sizes.keys:
        raise ConfigError(
            f"{key}: `query` has size {sizes.query} and `keys` {sizes.keys}; expected equal sizes. "
            "The general score compares vectors of different sizes."
        )
    return part.build(sizes, **row.options)


def attention_field(
    score: str, *, fixed: tuple[str, ...] = (), normalizers: tuple[str, ...] = (), **settings: Any
) -> Any:
    """The field `attention` of a model's Config: its default, and which settings are restricted."""
    default = AttentionConfig(score, **settings)
    allowed = {name: (getattr(default, name),) for name in fixed} | (
        {"normalizer": normalizers} if normalizers else {}
    )
    return field(default=default, metadata={"allowed": allowed})


def check_attention(owner: str, config: Any) -> None:
    """Raise ConfigError if a model's Config has an attention that the model does not support."""
    [own] = [each for each in fields(config) if each.name == "attention"]
    for name, allowed in own.metadata["allowed"].items():
        found = getattr(config.attention, name)
        if found not in allowed:
            expected = " or ".join(map(repr, allowed))
            raise ConfigError(f"{owner}: `attention.{name}` has {found!r}; expected {expected}.")

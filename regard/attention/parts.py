"""What scores, normalizers and windows have in common; and whether one computes what its class says.

A kernel must know the latter before it takes the place of a part.
"""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import nn


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What parts are built from; each takes what it needs. AttentionConfig makes them from settings."""

    query: int
    keys: int
    hidden: int
    positions: int = 128  # location: the longest source it scores
    half_width: int = 10  # local windows: D of the paper
    filters: int = 10  # location-aware: as in Chorowski's experiments
    width: int = 15  # location-aware: width of each filter
    temperature: float = 1.0  # softmax, Gumbel-softmax


class Part(nn.Module):
    """A score, normalizer or window: how a recipe builds it, and what the laws must know about it."""

    equal_sizes: ClassVar[bool] = False  # True: query and keys have the same size
    positional: ClassVar[bool] = False  # True: what it computes depends on where a key stands
    sums_to_one: ClassVar[bool] = True  # False: a row with something visible may sum to something else

    @classmethod
    def build(cls, sizes: Sizes, **options: Any) -> Self:
        """The part for these sizes: those that its constructor names."""
        named = inspect.signature(cls).parameters
        return cls(**{name: size for name, size in vars(sizes).items() if name in named} | options)


def unchanged(part: nn.Module) -> bool:
    """The instance has no hooks, and no `forward`, `form` or `normalize` that its class has not."""
    own = part.__dict__
    return not (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or "forward" in own
        or "form" in own
        or "normalize" in own
    )


def is_own(part: nn.Module | None, *classes: type[nn.Module]) -> bool:
    """The part is of one of these classes, no subclass of it, and unchanged.

    A kernel replaces what its class computes. What a subclass, a hook or a `forward` set on the instance
    computes it cannot know.
    """
    return type(part) in classes and unchanged(part)  # type: ignore[arg-type]


def foreign(parts: Iterable[nn.Module], *classes: type[nn.Module]) -> nn.Module | None:
    """The first part that is not `is_own`; what takes the place of them all must leave the call to them."""
    return next((part for part in parts if not is_own(part, *classes)), None)


def named(part: nn.Module | None) -> str:
    """The part as a reason names it."""
    name = type(part).__name__
    return name if part is None or unchanged(part) else f"{name} with hooks or methods of its own"

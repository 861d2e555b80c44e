"""What scores, normalizers and windows share, and a check that an instance does what its class says.

A kernel must check this before it replaces a part.
"""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import nn


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes that parts are built from; each takes what it needs. AttentionConfig fills them in."""

    query: int
    keys: int
    hidden: int
    positions: int = 128  # location: the longest source it scores
    half_width: int = 10  # local windows: D of the paper
    filters: int = 10  # location-aware: as in Chorowski's experiments
    width: int = 15  # location-aware: width of each filter
    temperature: float = 1.0  # softmax, Gumbel-softmax


class Part(nn.Module):
    """A score, normalizer or window: how a recipe builds it, and what the law tests must know about it."""

    equal_sizes: ClassVar[bool] = False  # True: query and keys have the same size
    positional: ClassVar[bool] = False  # True: the result depends on the positions of the keys
    sums_to_one: ClassVar[bool] = True  # False: the weights of a non-empty row need not sum to one

    @classmethod
    def build(cls, sizes: Sizes, **options: Any) -> Self:
        """The part, built with those sizes that its constructor takes."""
        named = inspect.signature(cls).parameters
        return cls(**{name: size for name, size in vars(sizes).items() if name in named} | options)


def unchanged(part: nn.Module) -> bool:
    """Whether the instance has no hooks and no `forward`, `form` or `normalize` of its own."""
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
    """Whether the part is an unchanged instance of exactly one of these classes.

    A kernel replaces what a class computes; it cannot know what a subclass, a hook or an instance's own
    `forward` computes.
    """
    return type(part) in classes and unchanged(part)  # type: ignore[arg-type]


def foreign(parts: Iterable[nn.Module], *classes: type[nn.Module]) -> nn.Module | None:
    """The first part that is not `is_own`; a kernel that replaces all parts must refuse if there is one."""
    return next((part for part in parts if not is_own(part, *classes)), None)


def named(part: nn.Module | None) -> str:
    """The part's name in a refusal."""
    name = type(part).__name__
    return name if part is None or unchanged(part) else f"{name} with hooks or methods of its own"

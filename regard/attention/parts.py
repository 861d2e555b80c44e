"""Whether a part of a model computes what its class says, which a kernel must know before it replaces it."""

from collections.abc import Iterable

from torch import nn


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

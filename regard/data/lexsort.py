"""Sorting by several keys."""

from torch import Tensor


def lexsort(*keys: Tensor) -> Tensor:
    """Stable argsort by the first key, ties by the second, and so on."""
    order = keys[-1].argsort(stable=True)
    for key in keys[-2::-1]:
        order = order.gather(-1, key.gather(-1, order).argsort(stable=True))
    return order

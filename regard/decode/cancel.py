"""Stops work whose result nobody waits for any more.

    with cancellable(lambda: client.has_left):
        translator.translate(texts)          # raises Cancelled between two steps once the client has left

Decoding checks between two steps, systems between two batches. Outside such a block they never stop.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancelled(BaseException):
    """Nobody waits for the result; like asyncio's, it is not caught by `except Exception`."""


_unwanted: ContextVar[Callable[[], bool] | None] = ContextVar("unwanted", default=None)


@contextmanager
def cancellable(unwanted: Callable[[], bool]) -> Iterator[None]:
    """Stop work inside this block as soon as `unwanted()` is true, in this thread or task."""
    before = _unwanted.set(unwanted)
    try:
        yield
    finally:
        _unwanted.reset(before)


def check_cancelled() -> None:
    """Raise `Cancelled` if nobody waits any more."""
    unwanted = _unwanted.get()
    if unwanted is not None and unwanted():
        raise Cancelled

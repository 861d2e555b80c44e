"""Keys and values of the output so far: a source that grows by one position a step.

    cache = Cache.of(attention.prepare(x[:, :0]), Mask(causal=True))
    for t in range(T):
        cache = cache.append(attention.prepare(x[:, t : t + 1]))
        result = attention(x[:, t : t + 1], cache.source)

`Source.append` copies all earlier positions at every step. A cache has a buffer with spare room, and a step
writes only its own position. A cache is still a value: the buffer tracks how far it is filled, and appending
to the same cache a second time copies its part first.
"""

from dataclasses import dataclass, replace
from threading import Lock

from torch import Tensor

from regard.attention.mask import Mask
from regard.attention.source import Source, check_rows, check_source, chosen
from regard.errors import MaskError, ShapeError

_LOCK = Lock()
ROOM = 8  # spare positions of a new buffer; few, because `select` copies them too


class _Buffer:
    """Keys and values with spare room behind them; the first `filled` positions are taken."""

    __slots__ = ("filled", "keys", "values")

    def __init__(self, keys: Tensor, values: Tensor, filled: int) -> None:
        self.keys, self.values, self.filled = keys, values, filled  # (..., C, Dp), (..., C, Dv)

    def claim(self, start: int, end: int) -> bool:
        """Reserve these positions for the caller; False if they are taken or there is no room."""
        with _LOCK:  # two threads may append to one cache
            free = self.filled == start and end <= self.keys.shape[-2]
            if free:
                self.filled = end
            return free


@dataclass(frozen=True, eq=False)
class Cache:
    """The first `length` positions of a buffer."""

    buffer: _Buffer
    length: int
    mask: Mask  # causality and window, for all positions

    @staticmethod
    def of(source: Source, mask: Mask) -> "Cache":
        """A cache that begins with a source, which may be empty and must have no mask of its own."""
        source, mask = _plain("Cache.of", "source", source), Mask.of(mask)
        if mask.lengths is not None or mask.dense is not None:
            raise MaskError(
                "Cache: `mask` has lengths or a dense part; expected only causality and a window."
            )
        return Cache(_grown(source.keys, source.values, source.S), source.S, mask)

    @property
    def source(self) -> Source:
        """The positions so far, for queries at the last of them."""
        keys, values = (x[..., : self.length, :] for x in (self.buffer.keys, self.buffer.values))
        return Source(keys, values, self.mask, grown=True)

    def append(self, new: Source) -> "Cache":
        """Append one or more positions."""
        new, buffer = _plain("Cache.append", "new", new), self.buffer
        _check_alike("keys", new.keys, buffer.keys)
        _check_alike("values", new.values, buffer.values)
        end = self.length + new.S
        # `data`: otherwise autograd would report that earlier positions, saved for backward, were changed
        keys, values = buffer.keys.data, buffer.values.data
        if new.keys.requires_grad or new.values.requires_grad or not buffer.claim(self.length, end):
            keys, values = (x[..., : self.length, :] for x in (buffer.keys, buffer.values))
            buffer = _grown(keys, values, end)
            buffer.filled, keys, values = end, buffer.keys, buffer.values
        keys[..., self.length : end, :] = new.keys
        values[..., self.length : end, :] = new.values
        return replace(self, buffer=buffer, length=end)

    def select(self, rows: Tensor) -> "Cache":
        """Keep these rows of the batch, in this order; rows may repeat."""
        check_rows("Cache.select", rows)
        keys, values = (chosen("Cache.select", x, rows) for x in (self.buffer.keys, self.buffer.values))
        return replace(self, buffer=_Buffer(keys, values, self.length))


def _plain(owner: str, name: str, source: Source) -> Source:
    """The source with shared rows copied; raises MaskError if it has a mask."""
    check_source(owner, name, source)
    if not source.mask.is_trivial:
        raise MaskError(
            "Cache: `source` has a mask of its own; expected none. `Cache.of(source, mask)` takes causality "
            "and a window for all positions, `Source.append` keeps the mask of each part."
        )
    return source.spread()


def _check_alike(name: str, new: Tensor, kept: Tensor) -> None:
    if (new.shape[:-2], new.shape[-1]) != (kept.shape[:-2], kept.shape[-1]):
        expected = ", ".join(map(str, (*kept.shape[:-2], "T", kept.shape[-1])))
        raise ShapeError(f"Cache.append: `new.{name}` has shape {tuple(new.shape)}; expected ({expected}).")


def _grown(keys: Tensor, values: Tensor, needed: int) -> _Buffer:
    """A new buffer that begins with these, with room for `needed` positions and some spare ones."""
    S = keys.shape[-2]
    room = needed + max(ROOM, S // 8)  # proportional, so that long sequences are copied rarely
    made = []
    for x in (keys, values):
        buffer = x.new_empty(*x.shape[:-2], room, x.shape[-1])
        buffer[..., :S, :] = x
        made.append(buffer)
    return _Buffer(made[0], made[1], S)

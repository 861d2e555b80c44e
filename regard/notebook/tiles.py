"""Compressed weights: one byte per weight, deflated, and max-pooled if that is still too large."""

import heapq
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.notebook.layers import Layer
from regard.tensor_bytes import as_bytes
from regard.web.matrix import quantize, wire

MOST = 2**26  # weights of all heads together; above that they are pooled before compression
LEAST = 64  # weights of a tile that is not pooled further


@dataclass(frozen=True, eq=False)
class Tile:
    """One head: levels from 0 to 255, and how many positions one cell stands for on each axis."""

    levels: Tensor  # bytes
    scale: float
    pool: int

    def halved(self) -> "Tile":
        """Max-pool by 2 × 2."""
        return Tile(pool(self.levels, 2), self.scale, 2 * self.pool)

    def encoded(self) -> dict[str, Any]:
        """The tile as it is stored in the page."""
        return self._wire | {"pool": self.pool}

    @cached_property
    def _wire(self) -> dict[str, Any]:
        return wire(self.levels, float(f"{self.scale:.6g}"), compress=True)

    @property
    def size(self) -> int:
        """Bytes in the page, in base64."""
        return len(self._wire["data"])

    @cached_property
    def guess(self) -> int:
        """An estimate of `size`, from an eighth of the rows if there are many."""
        if len(self.levels) < 64:
            return self.size
        some = self.levels[torch.arange(len(self.levels)) % 64 < 8]
        return len(zlib.compress(as_bytes(some), 1)) * 4 // 3 * len(self.levels) // len(some)


def tiles_of(layers: Sequence[Layer], limit: int) -> list[list[Tile]]:
    """The heads of each layer in at most `limit` bytes: the largest are pooled until all fit."""
    first = 1
    while sum(layer.heads * layer.T * layer.S for layer in layers) // first**2 > MOST:
        first *= 2
    tiles = [[Tile(*quantize(head), first) for head in _pooled(layer, first)] for layer in layers]
    flat = [tile for row in tiles for tile in row]
    # compressing all of them would be slow; a guess is about a quarter too large
    flat = _fitted(flat, limit * 5 // 4, lambda tile: tile.guess)
    flat = _fitted(flat, limit, lambda tile: tile.size)
    found = iter(flat)
    return [[next(found) for _ in row] for row in tiles]


def _fitted(tiles: list[Tile], limit: int, size: Callable[[Tile], int]) -> list[Tile]:
    """Pool the largest tiles until the sum of their sizes is within the limit."""
    total = sum(map(size, tiles))
    largest = [(-size(tile), i) for i, tile in enumerate(tiles) if tile.levels.numel() > LEAST]
    heapq.heapify(largest)
    while total > limit and largest:
        _, i = heapq.heappop(largest)
        before, tiles[i] = tiles[i], tiles[i].halved()
        total += size(tiles[i]) - size(before)
        if tiles[i].levels.numel() > LEAST:
            heapq.heappush(largest, (-size(tiles[i]), i))
    return tiles


def _pooled(layer: Layer, size: int) -> Tensor:
    """(H, T / size, S / size) the weights of all heads, max-pooled by size × size."""
    step = -(-layer.block // size) * size
    blocks = [pool(layer.rows(first, min(first + step, layer.T)), size) for first in range(0, layer.T, step)]
    return torch.cat(blocks, 1)


def pool(array: Tensor, size: int) -> Tensor:
    """Max-pool (..., T, S) by size × size; the last cells may cover fewer."""
    *lead, T, S = array.shape
    # pad with copies of the last row and column, which do not change a maximum
    rows = torch.arange(-(-T // size) * size).clamp(max=T - 1)
    columns = torch.arange(-(-S // size) * size).clamp(max=S - 1)
    full = array[..., rows, :][..., columns] if size > 1 else array
    return full.reshape(*lead, len(rows) // size, size, len(columns) // size, size).amax((-3, -1))

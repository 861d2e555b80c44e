"""Weights in few bytes: one byte a weight, deflated, and max-pooled where that is still too much."""

import heapq
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.notebook.layers import Layer
from regard.web.matrix import quantize

MOST = 2**26  # weights of all heads that are compressed as they are; beyond that they are pooled first
Number = TypeVar("Number", np.uint8, np.float32)
LEAST = 64  # weights of a tile that is not pooled further


@dataclass(frozen=True, eq=False)
class Tile:
    """One head: levels from 0 to 255, and how many positions one cell stands for on each axis."""

    levels: NDArray[np.uint8]
    scale: float
    pool: int
    packed: bytes

    @property
    def size(self) -> int:
        """Bytes in the page, in base64."""
        return 4 * ((len(self.packed) + 2) // 3)


def tiles_of(layers: Sequence[Layer], limit: int) -> list[list[Tile]]:
    """The heads of each layer in at most `limit` bytes: the largest are pooled until all fit."""
    first = 1
    while sum(layer.heads * layer.T * layer.S for layer in layers) // first**2 > MOST:
        first *= 2
    tiles = [[_tile(*quantize(head), first) for head in _pooled(layer, first)] for layer in layers]
    total = sum(tile.size for row in tiles for tile in row)
    largest = [(-tile.size, i, j) for i, row in enumerate(tiles) for j, tile in enumerate(row)]
    heapq.heapify(largest)
    while total > limit and largest:
        _, i, j = heapq.heappop(largest)
        before = tiles[i][j]
        if before.levels.size <= LEAST:
            continue
        after = _tile(pool(before.levels, 2), before.scale, 2 * before.pool)
        tiles[i][j] = after
        total += after.size - before.size
        heapq.heappush(largest, (-after.size, i, j))
    return tiles


def _tile(levels: NDArray[np.uint8], scale: float, pooled: int) -> Tile:
    return Tile(levels, scale, pooled, zlib.compress(levels.tobytes(), 6))


def _pooled(layer: Layer, size: int) -> NDArray[np.float32]:
    """(H, T / size, S / size) the weights of all heads; each is the largest of size × size."""
    step = -(-layer.block // size) * size
    blocks = [pool(layer.rows(first, min(first + step, layer.T)), size) for first in range(0, layer.T, step)]
    return np.concatenate(blocks, axis=1)


def pool(array: NDArray[Number], size: int) -> NDArray[Number]:
    """(..., T, S) -> the largest of each size × size cells; the last ones may stand for fewer."""
    if size == 1:
        return array
    *_, T, S = array.shape
    rows = np.maximum.reduceat(array, np.arange(0, T, size), axis=-2)
    return np.maximum.reduceat(rows, np.arange(0, S, size), axis=-1)

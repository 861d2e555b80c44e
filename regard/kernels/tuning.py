"""Launch configurations of the Triton kernels: plain constants and rules per shape, measured on an H200."""

from typing import NamedTuple


class Tile(NamedTuple):
    """A tile of scores: rows and columns per thread, threads along T and S, warps."""

    RT: int
    RS: int
    WT: int
    WS: int
    warps: int
    registers: int | None = None  # limit per thread: more resident threads hide each other's loads

    @property
    def rows(self) -> int:
        """The height of the tile."""
        return self.RT * self.WT

    @property
    def columns(self) -> int:
        """The width of the tile."""
        return self.RS * self.WS


SPAN = 32  # positions that share one reach, as in additive_triton/expand.py
PAD_ROWS, PAD_COLUMNS = 32, 128  # every tile below divides these, and they are whole spans
PAIRS = 2**24  # (t, s) pairs in memory at a time: enough tiles to fill the largest GPU
WIDE = Tile(4, 8, 4, 16, 2, 168)  # 16 × 128
FLAT = Tile(2, 8, 8, 16, 4)  # 16 × 128, for few rows
SMALL = Tile(2, 4, 8, 16, 4)  # 16 × 64, where larger tiles would leave multiprocessors idle
PROGRAMS = 264  # two for each multiprocessor of an H200
JOINED = (512, 32, 8)  # lines of grad_v, positions and groups of four features per tile of `join_kernel`
SPLITS = 8  # most parts of a long source that the product at the end of a step sums as it reads them


def score_tile(N: int, T: int, S: int) -> Tile:
    """The tile for N items of T queries and S keys."""
    tile = FLAT if T <= 16 else WIDE
    tiles = N * -(-T // tile.rows) * -(-S // tile.columns)
    return SMALL if T <= 16 and tiles < PROGRAMS else tile


def mix_tile(N: int, T: int, Dv: int) -> tuple[int, int]:
    """Rows and features of the context per program of `mix_kernel`.

    Each program reads all values: 64 rows read them half as often as 32, if that leaves enough programs.
    """
    features = min(128, max(16, power_of_two(Dv)))
    if N * -(-T // 64) * -(-Dv // features) >= 128:
        return 64, features
    return (32 if T > 16 else 16), features


def partial_sum(full_precision: bool) -> int:
    """Features per partial sum, in groups of four; half precision needs no partial sums."""
    return 16 if full_precision else 2**20


def gradient_columns(S: int) -> int:
    """Source positions per warp of the gradient kernel, in units of 128."""
    return 4 if S > 256 else 2 if S > 128 else 1


def gradient_rows(rows: int, programs: int, full_precision: bool) -> int:
    """Rows summed by one program, given the programs per part of the rows; even, for a loop by two."""
    longest = 128 if full_precision else 256
    parts = max(1, 4096 // programs)
    return max(16, min(longest, -(-rows // parts) // 2 * 2 + 2))


def step_keys(D: int, BT: int) -> tuple[int, int, int]:
    """Keys and features per tile, and warps, of a step's program that reads all features of BT queries.

    A row is one tile of four warps or several tiles of one warp: four warps would have to synchronize before
    the next tile.
    """
    if BT == 1:
        return (4, 1024, 4) if 512 < D <= 1024 else (2, 256, 1)
    features = max(128, min(power_of_two(D), 512))
    return 4096 // BT // features, features, 4


def step_features(N: int, S: int, D: int, BT: int, size: int) -> tuple[int, int, int]:
    """Keys and features per tile, and warps, of a step's program that loops over the keys.

    Either many small programs, or few with more loads in flight. `size` is that of an element in bytes.
    """
    if BT > 1:
        features = 64 // size
        return max(2, min(2048 // BT // features, power_of_two(S))), features, 4
    if N * D >= 2**16:
        return 16, 64, size // 2
    return max(2, min(128, power_of_two(S))), 32, 4


def projects(M: int, D: int, K: int) -> bool:
    """Whether a step multiplies M queries of K numbers by its D × K matrix itself.

    Above this size a library's product is faster on the device; below, its launch takes longer.
    """
    return M * D * K <= 2**24


def step_product(M: int) -> tuple[int, int, int]:
    """Queries, output features and input features per tile of that product."""
    return (16 if M <= 16 else 32), 32, 64


def step_part(programs: int, S: int, BS: int) -> int:
    """Keys that one program loops over, of S, given the number of programs without splitting."""
    parts = max(1, min(-(-S // 128), -(-PROGRAMS // programs)))
    return -(-S // parts // BS) * BS


def row_block(S: int) -> int:
    """How many elements of a row are loaded at a time: a power of two."""
    return min(1024, power_of_two(S))


def power_of_two(size: int) -> int:
    """The smallest power of two that is at least `size`."""
    return 1 << (size - 1).bit_length()

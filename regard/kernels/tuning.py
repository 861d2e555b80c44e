"""Launch configurations of the Triton kernels: literal, per shape, nothing clever. Measured on an H200."""

from typing import NamedTuple


class Tile(NamedTuple):
    """A tile of scores: rows and columns in a thread, threads along T and S, warps."""

    RT: int
    RS: int
    WT: int
    WS: int
    warps: int
    registers: int | None = None  # at most so many to a thread: more threads hide each other's loads

    @property
    def rows(self) -> int:
        """The height of the tile."""
        return self.RT * self.WT

    @property
    def columns(self) -> int:
        """The width of the tile."""
        return self.RS * self.WS


SPAN = 32  # positions that share one reach, as in additive_triton.py
PAD_ROWS, PAD_COLUMNS = 32, 128  # every tile below divides these, and they are whole spans
PAIRS = 2**24  # (t, s) pairs in memory at a time: enough tiles to fill the largest GPU
WIDE = Tile(4, 8, 4, 16, 2, 168)  # 16 × 128
FLAT = Tile(2, 8, 8, 16, 4)  # 16 × 128, for few rows
SMALL = Tile(2, 4, 8, 16, 4)  # 16 × 64, where larger tiles would leave multiprocessors idle
PROGRAMS = 264  # two for each multiprocessor of an H200
JOINED = (512, 32, 8)  # lines of grad_v, positions and groups of four features to a tile of `join_kernel`
SPLITS = 8  # parts of a long source that the product which ends a step may join on its way


def score_tile(N: int, T: int, S: int) -> Tile:
    """The tile for N items of T queries and S keys."""
    tile = FLAT if T <= 16 else WIDE
    tiles = N * -(-T // tile.rows) * -(-S // tile.columns)
    return SMALL if T <= 16 and tiles < PROGRAMS else tile


def mix_tile(N: int, T: int, Dv: int) -> tuple[int, int]:
    """Rows and features of the context to a program of `mix_kernel`.

    Each program reads all values: 64 rows read them half as often as 32, where that leaves enough programs.
    """
    features = min(128, max(16, power_of_two(Dv)))
    if N * -(-T // 64) * -(-Dv // features) >= 128:
        return 64, features
    return (32 if T > 16 else 16), features


def partial_sum(full_precision: bool) -> int:
    """Features summed before they join the total, in groups of four; half precision needs no such care."""
    return 16 if full_precision else 2**20


def gradient_columns(S: int) -> int:
    """128s of source positions to one warp of the gradient kernel."""
    return 4 if S > 256 else 2 if S > 128 else 1


def gradient_rows(rows: int, programs: int, full_precision: bool) -> int:
    """Rows summed by one program, given how many programs each part of the rows has. Even: two are a turn."""
    longest = 128 if full_precision else 256
    parts = max(1, 4096 // programs)
    return max(16, min(longest, -(-rows // parts) // 2 * 2 + 2))


def step_keys(D: int, BT: int) -> tuple[int, int, int]:
    """Keys and features to a tile of a step's program that takes all features of BT queries, and its warps.

    A row is one tile of four warps, or several of one: four would pass a tile on to one another before the
    next.
    """
    if BT == 1:
        return (4, 1024, 4) if 512 < D <= 1024 else (2, 256, 1)
    features = max(128, min(power_of_two(D), 512))
    return 4096 // BT // features, features, 4


def step_features(N: int, S: int, D: int, BT: int, size: int) -> tuple[int, int, int]:
    """Keys and features to a tile of a step's program that walks down the keys, and its warps.

    Many small programs, or few that have more loads on their way at a time. `size` is that of a number in
    bytes.
    """
    if BT > 1:
        features = 64 // size
        return max(2, min(2048 // BT // features, power_of_two(S))), features, 4
    if N * D >= 2**16:
        return 16, 64, size // 2
    return max(2, min(128, power_of_two(S))), 32, 4


def projects(M: int, D: int, K: int) -> bool:
    """Whether a step multiplies M queries of K numbers by its D × K matrix itself.

    A library's product is faster on the device from there on, and takes longer to start before.
    """
    return M * D * K <= 2**24


def step_product(M: int) -> tuple[int, int, int]:
    """Queries, features and numbers of a query to a tile of that product."""
    return (16 if M <= 16 else 32), 32, 64


def step_part(programs: int, S: int, BS: int) -> int:
    """Keys that a program walks down, of S, where there are so many programs without parts."""
    parts = max(1, min(-(-S // 128), -(-PROGRAMS // programs)))
    return -(-S // parts // BS) * BS


def row_block(S: int) -> int:
    """How much of a row is held at a time: a power of two."""
    return min(1024, power_of_two(S))


def power_of_two(size: int) -> int:
    """The least that is not smaller."""
    return 1 << (size - 1).bit_length()

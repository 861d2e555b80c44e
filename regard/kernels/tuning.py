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
WIDE = Tile(4, 8, 8, 16, 4, 168)  # 32 × 128
FLAT = Tile(2, 8, 8, 16, 4)  # 16 × 128, for few rows
SMALL = Tile(2, 4, 8, 16, 4)  # 16 × 64, where larger tiles would leave multiprocessors idle
PROGRAMS = 264  # two for each multiprocessor of an H200


def score_tile(N: int, T: int, S: int) -> Tile:
    """The tile for N items of T queries and S keys."""
    tile = FLAT if T <= 16 else WIDE
    tiles = N * -(-T // tile.rows) * -(-S // tile.columns)
    return SMALL if T <= 16 and tiles < PROGRAMS else tile


def mix_tile(T: int, Dv: int) -> tuple[int, int]:
    """Rows and features of the context to a program of `mix_kernel`."""
    return (32 if T > 16 else 16), min(128, max(16, power_of_two(Dv)))


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


WHOLE = 128  # source positions that one program of a step may take together


def step_blocks(rows: int, S: int) -> tuple[int, int, int]:
    """Keys and features to a program of the forward step, and its warps, for this many queries in all."""
    if S <= WHOLE:
        keys = max(16, power_of_two(S))
        return keys, 8192 // keys, 8
    keys = 32
    while keys > 8 and rows * -(-S // keys) < PROGRAMS:
        keys //= 2
    return keys, 4096 // keys, 4


def step_gradient_blocks(rows: int, S: int) -> tuple[int, int]:
    """Keys and features to a program of the backward step."""
    keys = 16 if rows * -(-S // 16) >= PROGRAMS else 8
    return keys, 4096 // keys


def power_of_two(size: int) -> int:
    """The least that is not smaller."""
    return 1 << (size - 1).bit_length()

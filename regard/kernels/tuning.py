"""Launch configurations of the Triton kernels: literal, per shape, nothing clever. Measured on an H200."""

from typing import NamedTuple


class Tile(NamedTuple):
    """A tile of scores: rows and columns in a thread, threads along T and S, warps."""

    RT: int
    RS: int
    WT: int
    WS: int
    warps: int
    registers: int | None = (
        None  # at most so many to a thread: more threads at a time, to hide each other's loads
    )

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


def score_tile(T: int) -> Tile:
    """The tile for T query rows."""
    return FLAT if T <= 16 else WIDE


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

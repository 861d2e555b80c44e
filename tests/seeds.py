"""Seeds that tests name themselves, shifted like all others by REGARD_SEED_OFFSET."""

import os


def offset() -> int:
    """How far this run of the suite shifts every seed."""
    return int(os.environ.get("REGARD_SEED_OFFSET", "0"))


def offset_seed(seed: int) -> int:
    """The seed of this run of the suite."""
    return seed + offset()

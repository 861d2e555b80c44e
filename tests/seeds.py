"""Seeds that tests name themselves, offset_seed like all others by REGARD_SEED_OFFSET."""

import os

OFFSET = int(os.environ.get("REGARD_SEED_OFFSET", "0"))


def offset_seed(seed: int) -> int:
    """The seed of this run of the suite."""
    return seed + OFFSET

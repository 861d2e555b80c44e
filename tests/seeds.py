"""Seeds set explicitly by tests, shifted by REGARD_SEED_OFFSET like all others."""

import os


def offset() -> int:
    """The seed offset of this run."""
    return int(os.environ.get("REGARD_SEED_OFFSET", "0"))


def offset_seed(seed: int) -> int:
    """The seed, shifted by the offset of this run."""
    return seed + offset()

"""Renamed settings and catalogue keys, old name to new.

An error about an old name gives the new one; runs of earlier versions are translated when they are read.
"""

from collections.abc import Container

# settings; an old key applies only if the model or task has the new key and lacks the old one
KEYS = {
    "model.attention": "model.attends",
    "model.score": "model.attention.score",
    "model.normalizer": "model.attention.normalizer",
    "model.window": "model.attention.window",
    "model.heads": "model.attention.heads",
    "model.alignment": "model.attention.hidden",
    "model.half_width": "model.attention.half_width",
    "model.positions": "model.attention.positions",
    "model.filters": "model.attention.filters",
    "model.width": "model.attention.width",
    "model.temperature": "model.attention.temperature",
    "model.kernel": "model.attention.kernel",
    "task.dropped": "task.bpe_dropout",
    "task.cuts": "task.bpe_samples",
    "task.both_ways": "task.reversed_epochs",
    "task.consistency": "task.r_drop",
}

# catalogue entries, as kind:key
ENTRIES = {
    "normalizer:count": "normalizer:divide-by-length",
    "kernel:tapes": "kernel:lstmn",
    "kernel:machine": "kernel:ntm",
}


def new_key(key: str, known: Container[str]) -> str | None:
    """The new name of a renamed setting; None if the key was not renamed."""
    new = KEYS.get(key)
    return new if key not in known and new in known else None


def new_entry(kind: str, key: object) -> str | None:
    """The new name of a renamed catalogue entry; None if it was not renamed."""
    new = ENTRIES.get(f"{kind}:{key}")
    return None if new is None else new.partition(":")[2]

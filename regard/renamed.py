"""Old names and what they are called now.

A person who types an old name is told the new one. Runs of earlier versions are translated as they are read.
"""

from collections.abc import Container

# settings; an old key counts where the model or task has the new one and not the old one
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

# entries of the catalogue, as kind:key
ENTRIES = {
    "normalizer:count": "normalizer:divide-by-length",
    "kernel:tapes": "kernel:lstmn",
    "kernel:machine": "kernel:ntm",
}


def new_key(key: str, known: Container[str]) -> str | None:
    """The key that has taken the place of an old one; None where the key is no old one."""
    new = KEYS.get(key)
    return new if key not in known and new in known else None


def new_entry(kind: str, key: object) -> str | None:
    """The same for a key of the catalogue."""
    new = ENTRIES.get(f"{kind}:{key}")
    return None if new is None else new.partition(":")[2]

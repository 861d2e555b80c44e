"""Builds attention from keys of the catalogue, as recipes do."""

from dataclasses import asdict
from typing import Any

from regard import Attention
from regard.attention.config import AttentionConfig
from regard.attention.parts import Sizes


def built(score: str, sizes: Sizes, *, dropout: float = 0.0, **settings: Any) -> Attention:
    """Build the Attention with these keys and sizes."""
    given = asdict(sizes)
    query, keys = given.pop("query"), given.pop("keys")
    attention = AttentionConfig(score, **given, **settings).build(query=query, keys=keys)
    attention.dropout = dropout
    return attention

"""Joins the calls of one module into one alignment, as in generation with a cache."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention.result import AttentionResult
from regard.errors import ConfigError


def joined(path: str, results: Sequence[AttentionResult]) -> Tensor:
    """(..., ΣT, S) the weights of all calls; zero at source positions that a call did not have yet."""
    parts = [result.weights for result in results]
    if any(part.shape[:-2] != parts[0].shape[:-2] for part in parts):
        shapes = ", ".join(str(tuple(part.shape)) for part in parts[:3])
        raise ConfigError(
            f"Trace.steps: `path` has {path!r}, whose calls differ in rows or heads ({shapes}, …); expected "
            "one generation of one batch."
        )
    ends = torch.tensor([part.shape[-2] for part in parts]).cumsum(0).tolist()
    grows = _sees_itself(parts[0])
    # the first key that a sliding cache still has in each call: S counts only the kept ones
    firsts = [max(0, end - part.shape[-1]) if grows else 0 for part, end in zip(parts, ends, strict=True)]
    S = max(first + part.shape[-1] for part, first in zip(parts, firsts, strict=True))
    whole = parts[0].new_zeros(*parts[0].shape[:-2], ends[-1], S)
    start = 0
    for part, first, end in zip(parts, firsts, ends, strict=True):
        whole[..., start:end, first : first + part.shape[-1]] = part
        start = end
    return whole


def _sees_itself(weights: Tensor) -> bool:
    """True for causal self-attention: as many sources as queries, and the first sees only itself."""
    T, S = weights.shape[-2:]
    return T == S and not bool(weights[..., 0, 1:].any())

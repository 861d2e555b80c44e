"""Keeps NaN, infinities and huge numbers in hidden positions out of results and gradients.

    0 · NaN = NaN      neither a zero weight removes a value, nor a zero gradient a key

Padding is often uninitialized memory. Positions that a mask hides from all queries (lengths, and columns of a
dense mask) are therefore zeroed when a source is prepared, before anything is computed from them. A source
built by hand is checked in every call. On a CPU the norm of keys and values tells whether there is anything
to do, in a fraction of the time of a copy. On a GPU, where reading the norm would wait for the device, and in
compiled graphs, they are always zeroed.

A position that only some queries see, as under causality, cannot be zeroed. On a CPU, outside compiled
graphs, a call with such garbage runs on the reference: queries that see it get NaN and contribute no
gradient, and the others are unaffected. On a GPU and in compiled graphs the others may get NaN too.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention.mask import Mask
from regard.attention.numerics import is_transformed
from regard.attention.source import Source

PLAIN = (Tensor, nn.Parameter)  # not fake tensors or other subclasses without data


def silenced(mask: Mask, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Keys and values, zeroed where no query can see, and whether the rest is harmless as far as is known."""
    if not _can_look(keys, values):
        return *_without_hidden(mask, keys, values), True
    if _is_tame(keys) and (values is keys or _is_tame(values)):
        return keys, values, True
    keys, values = _without_hidden(mask, keys, values)
    return keys, values, _is_finite(keys) and (values is keys or _is_finite(values))


def guarded(source: Source) -> tuple[Source, bool]:
    """The source, zeroed where no query can see, and whether the rest is harmless."""
    keys, values, harmless = silenced(source.mask, source.keys, source.values)
    if keys is source.keys and values is source.values:
        return source, harmless
    return Source(keys, values, source.mask, source.copies), harmless


def not_finite(x: Tensor) -> Tensor:
    """(..., S, D) -> (..., 1, S) positions with a non-finite number."""
    return ~x.isfinite().all(-1).unsqueeze(-2)


def without(x: Tensor, positions: Tensor) -> Tensor:
    """(..., S, D), (..., 1, S) -> zeros at these positions."""
    return torch.where(positions.mT, 0.0, x)


def projected(project: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """project(x), NaN where x is not finite; such positions stay out of the projection's gradient."""
    bad = not_finite(x)
    return torch.where(bad.mT, math.nan, project(without(x, bad)))


def _can_look(keys: Tensor, values: Tensor) -> bool:
    """Whether values can be read without waiting, and control flow may depend on them."""
    plain = keys.is_cpu and values.is_cpu and type(keys) in PLAIN and type(values) in PLAIN
    return plain and not (torch.compiler.is_compiling() or is_transformed())


def _is_tame(x: Tensor) -> bool:
    """Whether all numbers are finite and the sum of their squares still fits their dtype."""
    dtype = torch.float32 if x.element_size() < 4 else None
    norm = torch.linalg.vector_norm(x.detach(), dtype=dtype).item()
    return norm * norm <= torch.finfo(x.dtype).max


def _is_finite(x: Tensor) -> bool:
    return bool(x.detach().isfinite().all())


def _without_hidden(mask: Mask, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    if mask.lengths is None and mask.dense is None:
        return keys, values
    cleaned = _seen(mask, keys)
    cleaned = keys if cleaned is None else torch.where(cleaned, keys, 0.0)
    if values is keys:
        return cleaned, cleaned
    seen = _seen(mask, values)
    return cleaned, values if seen is None else torch.where(seen, values, 0.0)


def _seen(mask: Mask, x: Tensor) -> Tensor | None:
    """(..., S or 1, 1) which positions of x (..., S, D) any query can see; None if the mask does not fit."""
    rows = []
    if mask.lengths is not None:
        rows.append(torch.arange(x.shape[-2], device=x.device) < mask.lengths.to(x.device)[:, None])
        rows[0] = rows[0].view(-1, *[1] * (x.ndim - 2), x.shape[-2]) if x.ndim > 2 else rows[0]
    if mask.dense is not None:
        rows.append(mask.dense.any(-2, keepdim=True) if mask.dense.ndim > 1 else mask.dense[None])
    seen: Tensor | None = None
    for row in rows:
        fitted = _fitted(row, x)
        if fitted is None:
            return None
        seen = fitted if seen is None else seen & fitted
    return seen


def _fitted(row: Tensor, x: Tensor) -> Tensor | None:
    """A visibility row (..., 1, S), reduced to the axes of x (..., S, D), as (..., S, 1)."""
    while row.ndim > x.ndim:
        row = row.any(0)
    row = row.reshape(*[1] * (x.ndim - row.ndim), *row.shape)
    for axis in range(x.ndim - 2):
        if x.shape[axis] == 1 and row.shape[axis] > 1:  # several masks for one source
            row = row.any(axis, keepdim=True)
        elif row.shape[axis] not in (1, x.shape[axis]):
            return None
    return row.mT if row.shape[-1] in (1, x.shape[-2]) else None

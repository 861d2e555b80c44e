"""What nobody may see must not be heard: NaN, infinities and huge numbers in hidden positions.

    0 · NaN = NaN      a weight of zero does not silence a value, nor a slope of zero a key

Padding is often memory that nobody wrote. Positions that a mask hides from all queries (lengths, and columns
of a dense mask) are therefore made zero when a source is prepared, before anything is computed from them. A
source that is made by hand is looked at in every call. On a CPU the norm of keys and values tells whether
there is anything to do, in a fraction of the time that a copy takes. On a GPU, where one would have to wait
for the answer, and in compiled graphs they are made zero in any case.

A position that some queries see and others do not, as under causality, cannot be made zero. On a CPU, outside
of compiled graphs, a call with such garbage goes to the reference: queries that see it get NaN and take no
part in gradients, and the others do not notice. On a GPU and in compiled graphs they may get NaN too.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention.mask import Mask
from regard.attention.numerics import is_transformed
from regard.attention.source import Source

PLAIN = (Tensor, nn.Parameter)  # neither fake nor otherwise without numbers


def silenced(mask: Mask, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Both with zeros where no query can see; and whether what is left does no harm, if that can be known."""
    if not _can_look(keys, values):
        return *_without_hidden(mask, keys, values), True
    if _is_tame(keys) and (values is keys or _is_tame(values)):
        return keys, values, True
    keys, values = _without_hidden(mask, keys, values)
    return keys, values, _is_finite(keys) and (values is keys or _is_finite(values))


def guarded(source: Source) -> tuple[Source, bool]:
    """The source with zeros where no query can see, and whether what is left can do no harm."""
    keys, values, harmless = silenced(source.mask, source.keys, source.values)
    if keys is source.keys and values is source.values:
        return source, harmless
    return Source(keys, values, source.mask, source.copies), harmless


def not_finite(x: Tensor) -> Tensor:
    """(..., S, D) -> (..., 1, S) positions with a number that is not finite."""
    return ~x.isfinite().all(-1).unsqueeze(-2)


def without(x: Tensor, positions: Tensor) -> Tensor:
    """(..., S, D), (..., 1, S) -> zeros at these positions."""
    return torch.where(positions.mT, 0.0, x)


def projected(project: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """project(x), NaN where x is not finite: the gradient of what projects must not read such positions."""
    bad = not_finite(x)
    return torch.where(bad.mT, math.nan, project(without(x, bad)))


def _can_look(keys: Tensor, values: Tensor) -> bool:
    """Numbers can be read at once, and a choice may depend on them."""
    plain = keys.is_cpu and values.is_cpu and type(keys) in PLAIN and type(values) in PLAIN
    return plain and not (torch.compiler.is_compiling() or is_transformed())


def _is_tame(x: Tensor) -> bool:
    """All finite, and so small that even the sum of their squares fits their dtype."""
    dtype = torch.float32 if x.element_size() < 4 else None
    norm = torch.linalg.vector_norm(x.detach(), dtype=dtype).item()
    return norm * norm <= torch.finfo(x.dtype).max


def _is_finite(x: Tensor) -> bool:
    return bool(x.detach().isfinite().all())


def _without_hidden(mask: Mask, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    if mask.lengths is None and mask.dense is None:
        return keys, values
    quiet = _seen(mask, keys)
    quiet = keys if quiet is None else torch.where(quiet, keys, 0.0)
    if values is keys:
        return quiet, quiet
    seen = _seen(mask, values)
    return quiet, values if seen is None else torch.where(seen, values, 0.0)


def _seen(mask: Mask, x: Tensor) -> Tensor | None:
    """(..., S or 1, 1) positions of x (..., S, D) that some query can see; None if the mask does not fit."""
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
    """(..., 1, S) what is seen of x (..., S, D) by some row of the query, as (..., S, 1)."""
    while row.ndim > x.ndim:
        row = row.any(0)
    row = row.reshape(*[1] * (x.ndim - row.ndim), *row.shape)
    for axis in range(x.ndim - 2):
        if x.shape[axis] == 1 and row.shape[axis] > 1:  # several masks for one source
            row = row.any(axis, keepdim=True)
        elif row.shape[axis] not in (1, x.shape[axis]):
            return None
    return row.mT if row.shape[-1] in (1, x.shape[-2]) else None

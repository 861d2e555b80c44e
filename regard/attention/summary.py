"""A trace as a table, one row of numbers for each module; and the calls of one module as one alignment."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.result import AttentionResult
from regard.errors import ConfigError

BLOCK = 256  # queries at a time


class Row(NamedTuple):
    """One module. Measures are means over all queries that see something, in all calls and heads."""

    path: str
    calls: int
    heads: int
    T: int  # queries of the longest call
    S: int  # source positions of the longest call
    kernel: str
    entropy: float  # in bits: 0 where one position has all the weight, log2 S where all have the same
    distance: float  # Σ weight · |t - s|; NaN where the source is another sequence
    first: float  # share of the weight on the first position that the query may see
    last: float  # and on the last


class Summary(tuple[Row, ...]):
    """The rows; `str` makes a table, with what could not be recorded below it."""

    unseen: Mapping[str, str]

    def __new__(cls, rows: Sequence[Row], unseen: Mapping[str, str]) -> "Summary":
        made = super().__new__(cls, rows)
        made.unseen = dict(unseen)
        return made

    def __str__(self) -> str:
        rows = [Row._fields, *(_cells(row) for row in self)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(Row._fields))]
        text = {Row._fields.index(name) for name in ("path", "kernel")}
        lines = [
            "  ".join(
                cell.ljust(width) if column in text else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        lines += [f"not seen: {path or '(the model)'}: {reason}." for path, reason in self.unseen.items()]
        return "\n".join(lines)


def summarized(trace: Mapping[str, Sequence[AttentionResult]], unseen: Mapping[str, str]) -> Summary:
    """One row for each path of a trace."""
    return Summary([_row(path, results) for path, results in trace.items()], unseen)


def _row(path: str, results: Sequence[AttentionResult]) -> Row:
    sums, queries, end = torch.zeros(4, dtype=torch.float64), 0, 0
    heads = longest = widest = 0
    for result in results:
        T = result.T
        end += T
        for start in range(0, T, BLOCK):
            targets = torch.arange(start, min(start + BLOCK, T))
            with torch.no_grad():
                weights = result.rows(targets).double()
            S = weights.shape[-1]
            first = _first_position(T, S, end)
            if S:
                found, count = _measured(weights, None if first is None else targets + first)
                sums, queries = sums + found, queries + count
            heads, widest = weights.shape[-3] if weights.ndim > 3 else 1, max(widest, S)
        longest = max(longest, T)
    means = (sums / max(1, queries)).tolist()
    return Row(path, len(results), heads, longest, widest, results[0].kernel, *means)


def _first_position(T: int, S: int, end: int) -> int | None:
    """The position of a call's first query among its sources; None if these are another sequence.

    The queries are the sources themselves or, with a cache, the last of as many sources as queries so far.
    """
    if T == S:
        return 0
    return S - T if end == S else None


def _measured(weights: Tensor, positions: Tensor | None) -> tuple[Tensor, int]:
    """Sums of the four measures over the rows (..., R, S) that see something, and their number."""
    S, visible = weights.shape[-1], weights > 0
    sees = visible.any(-1)
    first = visible.int().argmax(-1, keepdim=True)
    last = S - 1 - visible.flip(-1).int().argmax(-1, keepdim=True)
    distance = torch.full_like(weights[..., 0], math.nan)
    if positions is not None:
        apart = positions.to(weights.device)[:, None] - torch.arange(S, device=weights.device)
        distance = (weights * apart.abs()).sum(-1)
    measures = (
        torch.special.entr(weights).sum(-1) / math.log(2),
        distance,
        weights.gather(-1, first).squeeze(-1),
        weights.gather(-1, last).squeeze(-1),
    )
    return torch.stack([x[sees].sum().cpu() for x in measures]), int(sees.sum())


def _cells(row: Row) -> tuple[str, ...]:
    numbers = (f"{row.entropy:.2f}", "–" if math.isnan(row.distance) else f"{row.distance:.1f}")
    shares = (f"{row.first:.1%}", f"{row.last:.1%}")
    sizes = (str(size) for size in (row.calls, row.heads, row.T, row.S))
    return (row.path or "(the model)", *sizes, row.kernel, *numbers, *shares)


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

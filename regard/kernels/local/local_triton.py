"""Attention inside a band in Triton, and its gradients: a tile of queries loops over the keys it sees.

    forward     forward_kernel    queries  ->  context; the largest score and 1 / Σ exp(score - largest)
    backward    query_kernel      queries  ->  grad_q, and Σ p dp, for the slope of every score
                key_kernel        keys     ->  grad_k, grad_values, over the queries that may see them

    p = exp(score - largest) / Σ exp(score - largest)      dp = grad · value      slope = p (dp - Σ p dp)

No T × S tensor, no gathered slices, no atomic additions. The band of a row is computed from a few numbers, as
in local_attention.py. The softmax is online: when a larger score comes, the running sums are rescaled.

Axes: q, out, grad (N, T, ·), k, values (N, S, ·), contiguous; stats (3, N, T): largest, 1 / Σ, Σ p dp.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl

from regard.kernels.additive.additive_triton.arithmetic import multiplied

NEVER = tl.constexpr(float("-inf"))


@triton.jit
def seen(
    t, n, T, S, lengths, share, offset, left, right, half, LENGTHS: tl.constexpr, LEFT: tl.constexpr,
    RIGHT: tl.constexpr, LOCAL: tl.constexpr,
):  # fmt: skip
    """The first and the last position that each row t sees; first > last: none."""
    at = t + offset
    low = tl.zeros_like(at)
    high = low + (S - 1)
    if LENGTHS:
        high = tl.minimum(high, tl.load(lengths + n // share).to(tl.int32) - 1)
    if LEFT:
        low = tl.maximum(low, at - left)
    if RIGHT:
        high = tl.minimum(high, at + right)
    if LOCAL:
        middle = tl.minimum(at, tl.where(high >= low, high, -1))
        low, high = tl.maximum(low, middle - half), tl.minimum(high, middle + half)
    return low, tl.where(t < T, high, -1)


@triton.jit
def rows_of(x, n, row, rows, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Some rows of one item of x (N, rows, WIDTH), zero beyond."""
    d = tl.arange(0, BLOCK)[None, :]
    place = x + (n * rows + row[:, None]) * WIDTH + d
    return tl.load(place, mask=(row < rows)[:, None] & (d < WIDTH), other=0.0)


@triton.jit
def store_rows(out, n, row, rows, numbers, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The inverse of `rows_of`."""
    d = tl.arange(0, BLOCK)[None, :]
    place = out + (n * rows + row[:, None]) * WIDTH + d
    tl.store(place, numbers.to(out.dtype.element_ty), mask=(row < rows)[:, None] & (d < WIDTH))


@triton.jit
def tile_scores(x, y, s, low, high, scale, BT: tl.constexpr, BS: tl.constexpr, SASS: tl.constexpr):
    """scale x yᵀ (BT, BS), -inf where a row does not see the key."""
    scores = multiplied(x, tl.trans(y), tl.zeros((BT, BS), dtype=tl.float32), SASS) * scale
    shown = (s[None, :] >= low[:, None]) & (s[None, :] <= high[:, None])
    return tl.where(shown, scores, NEVER)


@triton.jit(do_not_specialize=["N", "T", "S", "share", "offset", "left", "right", "half", "scale"])
def forward_kernel(
    q, k, values, lengths, out, stats, N, T, S, share, offset, left, right, half, scale, D: tl.constexpr,
    DV: tl.constexpr, LENGTHS: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, LOCAL: tl.constexpr,
    BT: tl.constexpr, BS: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr, SASS: tl.constexpr,
):  # fmt: skip
    """Some rows of one item's context."""
    n = tl.program_id(1).to(tl.int64)
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    low, high = seen(t, n, T, S, lengths, share, offset, left, right, half, LENGTHS, LEFT, RIGHT, LOCAL)
    first = tl.min(tl.where(low <= high, low, S), axis=0)
    last = tl.max(tl.where(low <= high, high, -1), axis=0)
    x = rows_of(q, n, t, T, D, BD)
    peak = tl.full((BT,), NEVER, dtype=tl.float32)
    total = tl.zeros((BT,), dtype=tl.float32)
    mixed = tl.zeros((BT, BV), dtype=tl.float32)
    for start in range(first, last + 1, BS):
        s = start + tl.arange(0, BS)
        e = tile_scores(x, rows_of(k, n, s, S, D, BD), s, low, high, scale, BT, BS, SASS)
        higher = tl.maximum(peak, tl.max(e, axis=1))
        base = tl.where(higher == NEVER, 0.0, higher)
        p = tl.exp(e - base[:, None])
        before = tl.exp(peak - base)
        total = total * before + tl.sum(p, axis=1)
        v = rows_of(values, n, s, S, DV, BV)
        mixed = multiplied(p.to(v.dtype), v, mixed * before[:, None], SASS)
        peak = higher
    inverse = tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))
    store_rows(out, n, t, T, mixed * inverse[:, None], DV, BV)
    tl.store(stats + n * T + t, tl.where(peak == NEVER, 0.0, peak), mask=t < T)
    tl.store(stats + (N + n) * T + t, inverse, mask=t < T)


@triton.jit(do_not_specialize=["N", "T", "S", "share", "offset", "left", "right", "half", "scale"])
def query_kernel(
    q, k, values, lengths, grad, stats, of_q, N, T, S, share, offset, left, right, half, scale,
    D: tl.constexpr, DV: tl.constexpr, LENGTHS: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    LOCAL: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr,
    SASS: tl.constexpr,
):  # fmt: skip
    """The query's gradient for some rows of one item: Σ p dp over their keys, then the slopes."""
    n = tl.program_id(1).to(tl.int64)
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    low, high = seen(t, n, T, S, lengths, share, offset, left, right, half, LENGTHS, LEFT, RIGHT, LOCAL)
    first = tl.min(tl.where(low <= high, low, S), axis=0)
    last = tl.max(tl.where(low <= high, high, -1), axis=0)
    x, g = rows_of(q, n, t, T, D, BD), rows_of(grad, n, t, T, DV, BV)
    peak = tl.load(stats + n * T + t, mask=t < T, other=0.0)
    inverse = tl.load(stats + (N + n) * T + t, mask=t < T, other=0.0)
    mean = tl.zeros((BT,), dtype=tl.float32)
    for start in range(first, last + 1, BS):
        s = start + tl.arange(0, BS)
        e = tile_scores(x, rows_of(k, n, s, S, D, BD), s, low, high, scale, BT, BS, SASS)
        p = tl.exp(e - peak[:, None]) * inverse[:, None]
        v = rows_of(values, n, s, S, DV, BV)
        mean += tl.sum(p * multiplied(g, tl.trans(v), tl.zeros((BT, BS), dtype=tl.float32), SASS), axis=1)
    found = tl.zeros((BT, BD), dtype=tl.float32)
    for start in range(first, last + 1, BS):
        s = start + tl.arange(0, BS)
        y = rows_of(k, n, s, S, D, BD)
        e = tile_scores(x, y, s, low, high, scale, BT, BS, SASS)
        p = tl.exp(e - peak[:, None]) * inverse[:, None]
        v = rows_of(values, n, s, S, DV, BV)
        slopes = multiplied(g, tl.trans(v), tl.zeros((BT, BS), dtype=tl.float32), SASS) - mean[:, None]
        found = multiplied((p * slopes * scale).to(y.dtype), y, found, SASS)
    store_rows(of_q, n, t, T, found, D, BD)
    tl.store(stats + (2 * N + n) * T + t, mean, mask=t < T)


@triton.jit(do_not_specialize=["N", "T", "S", "share", "offset", "left", "right", "half", "scale"])
def key_kernel(
    q, k, values, lengths, grad, stats, of_k, of_values, N, T, S, share, offset, left, right, half, scale,
    D: tl.constexpr, DV: tl.constexpr, LENGTHS: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    LOCAL: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr,
    SASS: tl.constexpr,
):  # fmt: skip
    """The gradients of some keys and values of one item, over the queries that may see them."""
    n = tl.program_id(1).to(tl.int64)
    s0 = tl.program_id(0) * BS
    s = s0 + tl.arange(0, BS)
    first, last = 0, T - 1
    end = S - 1
    if LENGTHS:
        end = tl.minimum(end, tl.load(lengths + n // share).to(tl.int32) - 1)
    if LEFT:
        last = tl.minimum(last, s0 + BS - 1 + left - offset)
    if RIGHT:
        first = tl.maximum(first, s0 - right - offset)
    if LOCAL:
        first = tl.maximum(first, s0 - half - offset)
        beyond = end <= s0 + BS - 1 + half  # queries past the source's end all see its last positions
        last = tl.where(beyond, last, tl.minimum(last, s0 + BS - 1 + half - offset))
    y, v = rows_of(k, n, s, S, D, BD), rows_of(values, n, s, S, DV, BV)
    found_k = tl.zeros((BS, BD), dtype=tl.float32)
    found_v = tl.zeros((BS, BV), dtype=tl.float32)
    for start in range(first, last + 1, BT):
        t = start + tl.arange(0, BT)
        low, high = seen(t, n, T, S, lengths, share, offset, left, right, half, LENGTHS, LEFT, RIGHT, LOCAL)
        x, g = rows_of(q, n, t, T, D, BD), rows_of(grad, n, t, T, DV, BV)
        peak = tl.load(stats + n * T + t, mask=t < T, other=0.0)
        inverse = tl.load(stats + (N + n) * T + t, mask=t < T, other=0.0)
        mean = tl.load(stats + (2 * N + n) * T + t, mask=t < T, other=0.0)
        e = tile_scores(x, y, s, low, high, scale, BT, BS, SASS)
        p = tl.exp(e - peak[:, None]) * inverse[:, None]
        found_v = multiplied(tl.trans(p.to(g.dtype)), g, found_v, SASS)
        slopes = multiplied(g, tl.trans(v), tl.zeros((BT, BS), dtype=tl.float32), SASS) - mean[:, None]
        found_k = multiplied(tl.trans((p * slopes * scale).to(x.dtype)), x, found_k, SASS)
    store_rows(of_k, n, s, S, found_k, D, BD)
    store_rows(of_values, n, s, S, found_v, DV, BV)

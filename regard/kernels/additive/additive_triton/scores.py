"""Many queries: scores of a tile, softmax over rows, the product with the values.

A tile of scores has four axes, (rows per thread, columns per thread, threads along T, threads along S): each
thread computes a small rectangle, which keeps loads rare.

In half precision a tile is stored as 2^(e - the largest e of its row), e in units of ln 2, in the dtype of
the values, together with that maximum and the sum; `mix_kernel` combines the tiles of a row. In float32 the
scores themselves are stored, `softmax_kernel` follows, and the product is left to the caller.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl

from regard.kernels.additive.additive_triton.arithmetic import (
    LIMIT,
    LOG2E,
    add_quotients,
    halves,
    is_shown,
    load_four,
    load_one,
    power_of_two,
    sigmoid,
)
from regard.kernels.additive.additive_triton.expand import SPAN

FEW = tl.constexpr(16)  # features per partial sum where a + b is formed first


@triton.jit
def is_near(
    far_a, far_b, more, spans_a, spans_b, G, COUNT_A: tl.constexpr, COUNT_B: tl.constexpr,
    GROUPS: tl.constexpr,
):  # fmt: skip
    """Whether the product of four factors fits float32 in every group of features of a tile."""
    near = True
    for start in range(0, G, GROUPS):
        g = start + tl.arange(0, GROUPS)
        reach_a = tl.zeros((GROUPS,), dtype=tl.float32)
        reach_b = tl.zeros((GROUPS,), dtype=tl.float32)
        for i in tl.static_range(COUNT_A):
            reach_a = tl.maximum(reach_a, tl.load(far_a + g * spans_a + i, mask=g < G, other=0.0))
        for i in tl.static_range(COUNT_B):
            reach_b = tl.maximum(reach_b, tl.load(far_b + g * spans_b + i, mask=g < G, other=0.0))
        reach = reach_a + reach_b + tl.load(more + g, mask=g < G, other=0.0)
        near = near & (tl.max(reach, axis=0) <= LIMIT)
    return near


@triton.jit
def products(
    own_a, own_b, inverse, T_pad, S_pad, G, RT: tl.constexpr, RS: tl.constexpr, WT: tl.constexpr,
    WS: tl.constexpr, CHUNK: tl.constexpr, SASS: tl.constexpr,
):  # fmt: skip
    """Σ w r of a tile from the products of exponentials, (RT, RS, WT, WS).

    `own_a` and `own_b` point to a thread's first row and column. The others are at constant offsets, which
    load instructions add for free: twelve pointers would take 24 registers.
    """
    down = (tl.arange(0, RT) * (WT * 4))[:, None, None, None]
    along = (tl.arange(0, RS) * (WS * 4))[None, :, None, None]
    total = tl.zeros((RT, RS, WT, WS), dtype=tl.float32)
    for start in range(0, G, CHUNK):
        part = tl.zeros((RT, RS, WT, WS), dtype=tl.float32)
        for g in range(start, min(start + CHUNK, G), 2):
            # two groups per iteration: the second is being loaded while the first is computed
            a1, a2, a3, a4 = load_four(own_a + g * (T_pad * 4) + down, SASS)
            b1, b2, b3, b4 = load_four(own_b + g * (S_pad * 4) + along, SASS)
            c1, c2, c3, c4 = load_four(inverse + 4 * g, SASS)
            a5, a6, a7, a8 = load_four(own_a + (g + 1) * (T_pad * 4) + down, SASS)
            b5, b6, b7, b8 = load_four(own_b + (g + 1) * (S_pad * 4) + along, SASS)
            c5, c6, c7, c8 = load_four(inverse + 4 * g + 4, SASS)
            part = add_quotients(part, a1, a2, a3, a4, b1, b2, b3, b4, c1, c2, c3, c4, SASS)
            part = add_quotients(part, a5, a6, a7, a8, b5, b6, b7, b8, c5, c6, c7, c8, SASS)
        total += part
    return total


@triton.jit
def sums(
    own_a, own_b, weights, D, RT: tl.constexpr, RS: tl.constexpr, WT: tl.constexpr, WS: tl.constexpr,
    SASS: tl.constexpr,
):  # fmt: skip
    """Σ w r of a tile, with a + b formed first: ½ Σ w - Σ w ½ tanh(a + b), (RT, RS, WT, WS).

    r is between 0 and 1, so its running sum grows while that of ½ tanh mostly cancels: with a hundred
    features its rounding error alone was more than twice the reference's. For the same reason features are
    added in short partial sums. In half precision the simple sum is accurate enough.
    """
    total = tl.zeros((RT, RS, WT, WS), dtype=tl.float32)
    middle = 0.0
    for start in range(0, D, FEW):
        part = tl.zeros((RT, RS, WT, WS), dtype=tl.float32)
        for d in range(start, min(start + FEW, D)):
            w = tl.load(weights + d)
            half, _ = halves(load_one(own_a + d, SASS), load_one(own_b + d, SASS), SASS)
            part += w * half
            middle += 0.5 * w
        total += part
    return middle - total


@triton.jit(do_not_specialize=["scale", "low", "high"])
def scores_kernel(
    a,  # (N, T, D), as given
    b,  # (N, S, D)
    lengths, dense,
    folded,  # (N, G, T_pad, 4), as expand.py wrote them
    B,  # (N, G, S_pad, 4)
    reach_a,  # (N, G, T_pad / SPAN)
    reach_b,
    weights,  # (G * 4,)
    inverse,  # (G * 4,)
    more,  # (G + 1,)
    out,  # (items, rows, S)
    tops,  # (items, rows, tiles): the largest score of a row of a tile, if PARTIAL
    totals,  # (items, rows, tiles): the sum of its exponentials
    first_item, first_row, rows, T, S, D, T_pad, S_pad, G, a_n, a_t, b_n, b_s, lengths_share, dense_share,
    dense_n, dense_t, dense_s, low, high, scale, HAS_LENGTHS: tl.constexpr, HAS_DENSE: tl.constexpr,
    HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr, RT: tl.constexpr, RS: tl.constexpr, WT: tl.constexpr,
    WS: tl.constexpr, CHUNK: tl.constexpr, PARTIAL: tl.constexpr, SASS: tl.constexpr,
):  # fmt: skip
    """e[t, s] = scale · (-2 Σ_d v_d r), -inf where hidden; omits the constant Σ v, which softmax ignores."""
    BT: tl.constexpr = RT * WT
    BS: tl.constexpr = RS * WS
    tile = tl.program_id(0)
    s0 = tile * BS
    t0 = first_row + tl.program_id(1) * BT
    item = tl.program_id(2).to(tl.int64)
    n = first_item + item

    seen = True
    if HAS_LENGTHS:
        seen = s0 < tl.load(lengths + n // lengths_share)
    if HAS_LOW:
        seen = seen & (s0 + BS - 1 >= t0 + low)
    if HAS_HIGH:
        seen = seen & (s0 <= t0 + BT - 1 + high)

    t = (t0 + tl.arange(0, RT)[:, None] * WT + tl.arange(0, WT)[None, :])[:, None, :, None]
    s = (s0 + tl.arange(0, RS)[:, None] * WS + tl.arange(0, WS)[None, :])[None, :, None, :]
    e = tl.zeros((RT, RS, WT, WS), dtype=tl.float32)
    if seen:
        spans_a = T_pad // SPAN
        spans_b = S_pad // SPAN
        near = is_near(
            reach_a + n * G * spans_a + t0 // SPAN,
            reach_b + n * G * spans_b + s0 // SPAN,
            more,
            spans_a,
            spans_b,
            G,
            (BT + SPAN - 1) // SPAN,
            (BS + SPAN - 1) // SPAN,
            64,
        )
        if near:
            own_a = folded + (n * G * T_pad + t0) * 4 + (tl.arange(0, WT) * 4)[None, None, :, None]
            own_b = B + (n * G * S_pad + s0) * 4 + (tl.arange(0, WS) * 4)[None, None, None, :]
            e = products(own_a, own_b, inverse, T_pad, S_pad, G, RT, RS, WT, WS, CHUNK, SASS)
            e *= tl.load(more + G)
        else:
            given_a = a + n * a_n + tl.minimum(t, T - 1).to(tl.int64) * a_t
            given_b = b + n * b_n + tl.minimum(s, S - 1).to(tl.int64) * b_s
            if a.dtype.element_ty == tl.float32:
                e = sums(given_a, given_b, weights, D, RT, RS, WT, WS, SASS)
            else:
                for d in range(0, D):
                    r = sigmoid(load_one(given_a + d, SASS) + load_one(given_b + d, SASS), SASS)
                    e += tl.load(weights + d) * r

    shown = is_shown(
        *(t, s, n, T, S, lengths, dense, lengths_share, dense_share),
        *(dense_n, dense_t, dense_s, low, high, HAS_LENGTHS, HAS_DENSE, HAS_LOW, HAS_HIGH),
    )
    if PARTIAL:
        scale *= LOG2E  # 2^x is one instruction, e^x five
    e = tl.where(shown, e * (-2.0 * scale), float("-inf"))
    inside = t < first_row + rows
    row = item * rows + (t - first_row)
    if PARTIAL:
        top = tl.max(tl.max(e, axis=1, keep_dims=True), axis=3, keep_dims=True)  # (RT, 1, WT, 1)
        e = power_of_two(e - tl.where(top == float("-inf"), 0.0, top), SASS)
        total = tl.sum(tl.sum(e, axis=1, keep_dims=True), axis=3, keep_dims=True)
        place = row * tl.cdiv(S, BS) + tile
        tl.store(tops + place, top, mask=inside)
        tl.store(totals + place, total, mask=inside)
    tl.store(out + row * S + s, e.to(out.dtype.element_ty), mask=inside & (s < S))


@triton.jit
def mix_kernel(
    values,  # (items, S, Dv)
    context,  # (items, rows, Dv)
    parts,  # (items, rows, S)
    tops,  # (items, rows, tiles)
    totals, rows, S, Dv, tiles, v_n, v_s, c_n, c_t, BT: tl.constexpr, BS: tl.constexpr, BD: tl.constexpr,
    SASS: tl.constexpr,
):  # fmt: skip
    """Some rows of the context from their tiles: Σ 2^(top - peak) (part @ values), divided by the total.

    The peak is the largest top so far; when a larger one comes, the running sums are rescaled.
    """
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    t = tl.program_id(1) * BT + tl.arange(0, BT)
    item = tl.program_id(2).to(tl.int64)
    row = item * rows + t
    peak = tl.full((BT,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BT,), dtype=tl.float32)
    mixed = tl.zeros((BT, BD), dtype=tl.float32)
    for i in range(0, tiles):
        top = tl.load(tops + row * tiles + i, mask=t < rows, other=float("-inf"))
        own = tl.load(totals + row * tiles + i, mask=t < rows, other=0.0)
        s = i * BS + tl.arange(0, BS)
        place = parts + row[:, None] * S + s[None, :]
        p = tl.load(place, mask=(t < rows)[:, None] & (s < S)[None, :], other=0.0)
        place = values + item * v_n + s[:, None].to(tl.int64) * v_s + d[None, :]
        v = tl.load(place, mask=(s < S)[:, None] & (d < Dv)[None, :], other=0.0)
        if not SASS:  # Triton's interpreter cannot multiply bfloat16
            p, v = p.to(tl.float32), v.to(tl.float32)
        higher = tl.maximum(peak, top)
        base = tl.where(higher == float("-inf"), 0.0, higher)
        before, now = power_of_two(peak - base, SASS), power_of_two(top - base, SASS)
        total = total * before + own * now
        mixed = mixed * before[:, None] + tl.dot(p, v) * now[:, None]
        peak = higher
    mixed = mixed / tl.where(total == 0.0, 1.0, total)[:, None]
    place = context + item * c_n + t[:, None].to(tl.int64) * c_t + d[None, :]
    tl.store(place, mixed.to(context.dtype.element_ty), mask=(t < rows)[:, None] & (d < Dv)[None, :])


@triton.jit
def softmax_kernel(scores, weights, S, BLOCK: tl.constexpr):
    """Scores to weights, row by row, in the dtype of `weights`; zeros if a row sees nothing."""
    row = tl.program_id(0).to(tl.int64) * S
    s = tl.arange(0, BLOCK)
    peaks = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for start in range(0, S, BLOCK):
        peaks = tl.maximum(peaks, tl.load(scores + row + start + s, mask=start + s < S, other=float("-inf")))
    peak = tl.max(peaks, axis=0)
    peak = tl.where(peak == float("-inf"), 0.0, peak)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, S, BLOCK):
        e = tl.load(scores + row + start + s, mask=start + s < S, other=float("-inf"))
        total += tl.exp(e - peak)
    sum_of_row = tl.sum(total, axis=0)
    factor = tl.where(sum_of_row == 0.0, 0.0, 1.0 / tl.where(sum_of_row == 0.0, 1.0, sum_of_row))
    for start in range(0, S, BLOCK):
        e = tl.load(scores + row + start + s, mask=start + s < S, other=float("-inf"))
        p = tl.exp(e - peak) * factor
        tl.store(weights + row + start + s, p.to(weights.dtype.element_ty), mask=start + s < S)

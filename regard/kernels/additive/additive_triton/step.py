"""One query or a few: the cost is reading keys and values, so each is read once per pass.

The sum a + b is formed in registers, with no preparation. A tile has three axes, (queries, keys, features);
there are at most four queries, which share each key while it is in registers.

    forward     project_step_kernel   query   ->  a = W q, if the product is small
                score_step_kernel     keys    ->  scores
                mix_step_kernel       values  ->  context
    backward    slope_step_kernel     values  ->  d loss / d score, grad_values
                key_step_kernel       keys    ->  grad_b, and partial sums of grad_a and grad_v
                sum_step_kernel       partial sums, in a fixed order  ->  grad_v, grad_query, grad_W

A kernel whose result is per key takes some keys and all features; one whose result is per feature takes some
features and loops over the keys. So every sum stays in registers until it is complete, and no program waits
for another. The forward pass saves one row for each query,

    kept (N, T, S + 2 + Dv) = scores | the largest, 1 / Σ exp(score - largest) | the context before rounding,

because the gradient of a score then depends on one key alone, g = p (grad · (value - context)). The kernels
of the backward pass share one buffer, since an allocation takes as long as a launch,

    slopes (N, T, S) | parts of grad_v (splits, N, D) | parts of grad_a (splits, N, T, D).

Strides are given in units of UNIT elements, which tells the compiler their divisibility, so that it loads 16
bytes at a time where possible.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl

from regard.kernels.additive.additive_triton.arithmetic import halves, is_shown, multiplied

NEVER = tl.constexpr(float("-inf"))


@triton.jit(do_not_specialize=["M"])
def project_step_kernel(
    query,  # (M, K), M = N T
    W,  # (D, K)
    a,  # (M, D)
    M, D: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr, BK: tl.constexpr,
    SASS: tl.constexpr,
):  # fmt: skip
    """W q for some features of some queries."""
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    sums = tl.zeros((BM, BD), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        place = query + m[:, None] * K + k[None, :]
        x = tl.load(place, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        place = W + d[None, :] * K + k[:, None]
        w = tl.load(place, mask=(d < D)[None, :] & (k < K)[:, None], other=0.0)
        sums = multiplied(x, w, sums, SASS)
    place = a + m[:, None] * D + d[None, :]
    tl.store(place, sums.to(a.dtype.element_ty), mask=(m < M)[:, None] & (d < D)[None, :])


@triton.jit(do_not_specialize=["low", "high", "scale"])
def score_step_kernel(
    a,  # (N, T, D)
    b,  # (N, S, D)
    v,  # (D,)
    lengths, dense,
    kept,  # (N, T, S + 2 + Dv)
    S, b_n, b_s, lengths_share, dense_share, dense_n, dense_t, dense_s, low, high, scale,
    HAS_LENGTHS: tl.constexpr, HAS_DENSE: tl.constexpr, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr,
    T: tl.constexpr, D: tl.constexpr, Dv: tl.constexpr, UNIT: tl.constexpr, BT: tl.constexpr,
    BS: tl.constexpr, BD: tl.constexpr, SASS: tl.constexpr,
):  # fmt: skip
    """e[t, s] = scale · Σ_d v_d tanh(a + b) for some keys of one item, -inf where hidden."""
    n = tl.program_id(1).to(tl.int64)
    s = tl.program_id(0) * BS + tl.arange(0, BS)
    t = tl.arange(0, BT)
    shown = is_shown(
        *(t[:, None], s[None, :], n, T, S, lengths, dense, lengths_share, dense_share),
        *(dense_n, dense_t, dense_s, low, high, HAS_LENGTHS, HAS_DENSE, HAS_LOW, HAS_HIGH),
    )
    wanted = (tl.max(shown.to(tl.int32), axis=0) > 0)[None, :, None]
    query = a + (n * T + t[:, None, None]) * D
    key = b + (n * b_n + s[None, :, None].to(tl.int64) * b_s) * UNIT
    sums = tl.zeros((BT, BS, BD), dtype=tl.float32)
    for start in range(0, D, BD):
        d = (start + tl.arange(0, BD))[None, None, :]
        y = tl.load(key + d, mask=wanted & (d < D), other=0.0).to(tl.float32)
        x = tl.load(query + d, mask=(t[:, None, None] < T) & (d < D), other=0.0).to(tl.float32)
        w = tl.load(v + d, mask=d < D, other=0.0).to(tl.float32)
        half, _ = halves(x, y, SASS)
        sums += w * half
    e = tl.where(shown, tl.sum(sums, axis=2) * (2.0 * scale), NEVER)
    row = kept + (n * T + t[:, None]) * (S + 2 + Dv)
    tl.store(row + s[None, :], e, mask=(t[:, None] < T) & (s[None, :] < S))


@triton.jit
def mix_step_kernel(
    values,  # (N, S, Dv)
    context,  # (N, T, Dv)
    kept,  # (N, T, S + 2 + Dv)
    S, v_n, v_s, T: tl.constexpr, Dv: tl.constexpr, UNIT: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr,
    BD: tl.constexpr, ROW: tl.constexpr,
):  # fmt: skip
    """Some features of the context of one item: softmax(scores) @ values.

    Every program first reads all scores of its queries twice, which takes less time than a launch.
    """
    n = tl.program_id(1).to(tl.int64)
    t = tl.arange(0, BT)
    own = kept + (n * T + t) * (S + 2 + Dv)
    peaks = tl.full((BT, ROW), NEVER, dtype=tl.float32)
    for start in range(0, S, ROW):
        s = start + tl.arange(0, ROW)[None, :]
        e = tl.load(own[:, None] + s, mask=(t[:, None] < T) & (s < S), other=NEVER)
        peaks = tl.maximum(peaks, e)
    peak = tl.max(peaks, axis=1)
    peak = tl.where(peak == NEVER, 0.0, peak)
    totals = tl.zeros((BT, ROW), dtype=tl.float32)
    for start in range(0, S, ROW):
        s = start + tl.arange(0, ROW)[None, :]
        e = tl.load(own[:, None] + s, mask=(t[:, None] < T) & (s < S), other=NEVER)
        totals += tl.exp(e - peak[:, None])
    total = tl.sum(totals, axis=1)
    inverse = tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))

    d = (tl.program_id(0) * BD + tl.arange(0, BD))[None, None, :]
    sums = tl.zeros((BT, BS, BD), dtype=tl.float32)
    for start in range(0, S, BS):
        s = (start + tl.arange(0, BS))[None, :, None]
        e = tl.load(own[:, None, None] + s, mask=(t[:, None, None] < T) & (s < S), other=NEVER)
        wanted = tl.max(e, axis=0, keep_dims=True) != NEVER
        place = values + (n * v_n + s.to(tl.int64) * v_s) * UNIT + d
        value = tl.load(place, mask=wanted & (d < Dv), other=0.0).to(tl.float32)
        sums += tl.exp(e - peak[:, None, None]) * inverse[:, None, None] * value
    mixed = tl.sum(sums, axis=1)
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    there = (t[:, None] < T) & (d[None, :] < Dv)
    tl.store(context + (n * T + t[:, None]) * Dv + d[None, :], mixed.to(context.dtype.element_ty), mask=there)
    tl.store(own[:, None] + (S + 2) + d[None, :], mixed, mask=there)
    if tl.program_id(0) == 0:
        tl.store(own + S, peak, mask=t < T)
        tl.store(own + S + 1, inverse, mask=t < T)


@triton.jit(do_not_specialize=["scale"])
def slope_step_kernel(
    grad,  # (N, T, Dv)
    values,  # (N, S, Dv)
    kept,  # (N, T, S + 2 + Dv)
    slopes,  # (N, T, S)
    grad_values,  # (N, S, Dv), if VALUES
    S, v_n, v_s, scale, T: tl.constexpr, Dv: tl.constexpr, UNIT: tl.constexpr, BT: tl.constexpr,
    BS: tl.constexpr, BD: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """d loss / d score, and the gradient of the values, for some keys of one item."""
    n = tl.program_id(1).to(tl.int64)
    s = (tl.program_id(0) * BS + tl.arange(0, BS))[None, :, None]
    t = tl.arange(0, BT)[:, None, None]
    own = kept + (n * T + t) * (S + 2 + Dv)
    e = tl.load(own + s, mask=(t < T) & (s < S), other=NEVER)
    peak = tl.load(own + S, mask=t < T, other=0.0)
    inverse = tl.load(own + S + 1, mask=t < T, other=0.0)
    p = tl.exp(e - peak) * inverse
    wanted = tl.max(e, axis=0, keep_dims=True) != NEVER
    value_of = values + (n * v_n + s.to(tl.int64) * v_s) * UNIT
    sums = tl.zeros((BT, BS, BD), dtype=tl.float32)
    for start in range(0, Dv, BD):
        d = (start + tl.arange(0, BD))[None, None, :]
        value = tl.load(value_of + d, mask=wanted & (d < Dv), other=0.0).to(tl.float32)
        there = (t < T) & (d < Dv)
        g = tl.load(grad + (n * T + t) * Dv + d, mask=there, other=0.0).to(tl.float32)
        mean = tl.load(own + (S + 2) + d, mask=there, other=0.0)
        sums += g * (value - mean)
        if VALUES:
            out = tl.sum(p * g, axis=0, keep_dims=True).to(grad_values.dtype.element_ty)
            tl.store(grad_values + (n * S + s) * Dv + d, out, mask=(s < S) & (d < Dv))
    slope = p * tl.sum(sums, axis=2, keep_dims=True) * scale
    tl.store(slopes + (n * T + t) * S + s, slope, mask=(t < T) & (s < S))


@triton.jit(do_not_specialize=["N", "part"])
def key_step_kernel(
    a,  # (N, T, D)
    b,  # (N, S, D)
    v,  # (D,)
    passed,  # slopes | parts_v | parts_a
    grad_b,  # (N, S, D), if KEYS
    S, b_n, b_s, N,
    part,  # keys per split
    T: tl.constexpr, D: tl.constexpr, UNIT: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr,
    BD: tl.constexpr, KEYS: tl.constexpr, SASS: tl.constexpr,
):  # fmt: skip
    """Some features of one item, looping over a part of its keys. Hidden positions have slope zero."""
    split = tl.program_id(1)
    n = tl.program_id(2).to(tl.int64)
    parts_v = passed + N.to(tl.int64) * T * S
    parts_a = parts_v + N.to(tl.int64) * tl.num_programs(1) * D
    t = tl.arange(0, BT)[:, None, None]
    d = (tl.program_id(0) * BD + tl.arange(0, BD))[None, None, :]
    x = tl.load(a + (n * T + t) * D + d, mask=(t < T) & (d < D), other=0.0).to(tl.float32)
    w = 4.0 * tl.load(v + d, mask=d < D, other=0.0).to(tl.float32)
    of_a = tl.zeros((BT, BS, BD), dtype=tl.float32)
    of_v = tl.zeros((BT, BS, BD), dtype=tl.float32)
    for start in range(split * part, min((split + 1) * part, S), BS):
        s = (start + tl.arange(0, BS))[None, :, None]
        g = tl.load(passed + (n * T + t) * S + s, mask=(t < T) & (s < S), other=0.0)
        wanted = tl.max((g != 0.0).to(tl.int32), axis=0, keep_dims=True) > 0
        place = b + (n * b_n + s.to(tl.int64) * b_s) * UNIT + d
        y = tl.load(place, mask=wanted & (d < D), other=0.0).to(tl.float32)
        half, r = halves(x, y, SASS)
        first = g * r
        second = first - first * r
        of_a += second
        of_v += g * half
        if KEYS:
            out = (w * tl.sum(second, axis=0, keep_dims=True)).to(grad_b.dtype.element_ty)
            tl.store(grad_b + (n * S + s) * D + d, out, mask=(s < S) & (d < D))
    row = split * N + n
    out = w * tl.sum(of_a, axis=1, keep_dims=True)
    tl.store(parts_a + (row * T + t) * D + d, out, mask=(t < T) & (d < D))
    total = tl.sum(tl.sum(of_v, axis=1, keep_dims=True), axis=0, keep_dims=True)
    tl.store(parts_v + row * D + d, 2.0 * total, mask=d < D)


@triton.jit
def sum_lines(parts, out, lines, width, block, BL: tl.constexpr, BW: tl.constexpr):
    """The sum over the lines of parts (lines, width), for some columns."""
    column = block * BW + tl.arange(0, BW)
    sums = tl.zeros((BL, BW), dtype=tl.float32)
    for start in range(0, lines, BL):
        line = start + tl.arange(0, BL)
        place = parts + line[:, None].to(tl.int64) * width + column[None, :]
        sums += tl.load(place, mask=(line < lines)[:, None] & (column < width)[None, :], other=0.0)
    tl.store(out + column, tl.sum(sums, axis=0).to(out.dtype.element_ty), mask=column < width)


@triton.jit
def joined(parts_a, m, d, M, D: tl.constexpr, SPLITS: tl.constexpr):
    """A tile of grad_a, the sum of its parts; unrolled, because an inner loop would wait for its loads."""
    there = (m < M) & (d < D)
    total = tl.load(parts_a + m * D + d, mask=there, other=0.0)
    for split in tl.static_range(1, SPLITS):
        total += tl.load(parts_a + (split * M + m) * D + d, mask=there, other=0.0)
    return total


@triton.jit
def query_tile(
    parts_a, W, out, block, M, SPLITS: tl.constexpr, D: tl.constexpr, K: tl.constexpr, BM: tl.constexpr,
    BD: tl.constexpr, BK: tl.constexpr, SASS: tl.constexpr,
):  # fmt: skip
    """A tile of grad_query = grad_a @ W."""
    m = (block // tl.cdiv(K, BK) * BM + tl.arange(0, BM))[:, None]
    k = (block % tl.cdiv(K, BK) * BK + tl.arange(0, BK))[None, :]
    sums = tl.zeros((BM, BK), dtype=tl.float32)
    for start in range(0, D, BD):
        d = start + tl.arange(0, BD)
        g = joined(parts_a, m, d[None, :], M, D, SPLITS)
        w = tl.load(W + d[:, None] * K + k, mask=(d < D)[:, None] & (k < K), other=0.0)
        sums = multiplied(g.to(w.dtype), w, sums, SASS)
    tl.store(out + m * K + k, sums.to(out.dtype.element_ty), mask=(m < M) & (k < K))


@triton.jit
def weight_tile(
    parts_a, query, out, block, M, SPLITS: tl.constexpr, D: tl.constexpr, K: tl.constexpr, BM: tl.constexpr,
    BD: tl.constexpr, BK: tl.constexpr, SASS: tl.constexpr,
):  # fmt: skip
    """A tile of grad_W = grad_aᵀ @ query."""
    d = (block // tl.cdiv(K, BK) * BD + tl.arange(0, BD))[:, None]
    k = (block % tl.cdiv(K, BK) * BK + tl.arange(0, BK))[None, :]
    sums = tl.zeros((BD, BK), dtype=tl.float32)
    for start in range(0, M, BM):
        m = start + tl.arange(0, BM)
        g = joined(parts_a, m[None, :], d, M, D, SPLITS)
        x = tl.load(query + m[:, None] * K + k, mask=(m < M)[:, None] & (k < K), other=0.0)
        sums = multiplied(g.to(x.dtype), x, sums, SASS)
    tl.store(out + d * K + k, sums.to(out.dtype.element_ty), mask=(d < D) & (k < K))


@triton.jit(do_not_specialize=["S", "N", "splits"])
def sum_step_kernel(
    query,  # (N T, K), if PROJECTS
    W,  # (D, K), if PROJECTS
    passed,  # slopes | parts_v | parts_a
    grad_v,  # (D,)
    grad_query,  # (N T, K), if QUERY; without PROJECTS it is grad_a, (N T, D)
    grad_W,  # (D, K), if PROJECTS
    S, N, splits, T: tl.constexpr, D: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr,
    BK: tl.constexpr,
    SPLITS: tl.constexpr,  # the same as `splits`, if PROJECTS
    PROJECTS: tl.constexpr, QUERY: tl.constexpr, SASS: tl.constexpr,
):  # fmt: skip
    """The first programs sum grad_v; the others, if any, grad_a, or grad_query and grad_W from it."""
    parts_v = passed + N.to(tl.int64) * T * S
    parts_a = parts_v + N.to(tl.int64) * splits * D
    M = N * T
    block = tl.program_id(0) - tl.cdiv(D, 8)
    queries = tl.cdiv(M, BM) * tl.cdiv(K, BK // 2) if QUERY else 0  # smaller tiles: their sums are longer
    if block < 0:
        sum_lines(parts_v, grad_v, splits * N, D, tl.program_id(0), 512, 8)
    elif not PROJECTS:
        sum_lines(parts_a, grad_query, splits, M * D, block, 8, 512)
    elif block < queries:
        query_tile(parts_a, W, grad_query, block, M, SPLITS, D, K, BM, 2 * BD, BK // 2, SASS)
    else:
        weight_tile(parts_a, query, grad_W, block - queries, M, SPLITS, D, K, BM, BD, BK, SASS)

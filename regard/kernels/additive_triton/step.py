"""One query or few: a block of keys is read once, and everything that needs it happens there.

Reading keys and values is the work, so the sum a + b is formed in registers and nothing is prepared.
Forward, a block of keys gives its scores, their largest, and its part of the context; `join_kernel` puts the
blocks of a row together, where there are several. What is kept for the backward pass is one row for each
query: the weights, then the context before it is rounded,

    kept (N, T, S + Dv),

because the gradient of a score is then known block by block, g = p (grad · (value - context)), and one launch
gives every gradient but for the sums over blocks, which `sum_kernel` takes in a fixed order.
"""

# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-def"
# mypy: disable-error-code="no-untyped-call, untyped-decorator"

import triton
import triton.language as tl

from regard.kernels.additive_triton.arithmetic import from_sum, is_shown


@triton.jit(do_not_specialize=["low", "high", "scale"])
def step_kernel(
    a,  # (N, T, D)
    b,  # (N, S, D)
    v,  # (D,)
    values,  # (N, S, Dv)
    lengths,
    dense,
    context,  # (N, T, Dv)
    kept,  # (N, T, S + Dv)
    parts,  # (N, T, blocks, Dv + 2), unless WHOLE
    T,
    S,
    b_n,
    b_s,
    v_n,
    v_s,
    lengths_share,
    dense_share,
    dense_n,
    dense_t,
    dense_s,
    low,
    high,
    scale,
    HAS_LENGTHS: tl.constexpr,
    HAS_DENSE: tl.constexpr,
    HAS_LOW: tl.constexpr,
    HAS_HIGH: tl.constexpr,
    D: tl.constexpr,
    Dv: tl.constexpr,
    BS: tl.constexpr,
    BD: tl.constexpr,
    WHOLE: tl.constexpr,
    SASS: tl.constexpr,
):
    """One block of keys of one query: scores, exponentials, mixture of values. WHOLE: there is one block."""
    block = tl.program_id(0)
    t = tl.program_id(1)
    n = tl.program_id(2).to(tl.int64)
    s = block * BS + tl.arange(0, BS)
    shown = is_shown(
        *(
            t + tl.zeros_like(s),
            s,
            n,
            T,
            S,
            lengths,
            dense,
            lengths_share,
            dense_share,
            dense_n,
            dense_t,
            dense_s,
        ),
        *(low, high, HAS_LENGTHS, HAS_DENSE, HAS_LOW, HAS_HIGH),
    )
    row = n * T + t
    keys = b + n * b_n + s[:, None].to(tl.int64) * b_s
    sums = tl.zeros((BS, BD), dtype=tl.float32)
    for start in range(0, D, BD):
        d = start + tl.arange(0, BD)
        x = tl.load(a + row * D + d, mask=d < D, other=0.0).to(tl.float32)
        w = tl.load(v + d, mask=d < D, other=0.0).to(tl.float32)
        y = tl.load(keys + d[None, :], mask=shown[:, None] & (d < D)[None, :], other=0.0).to(tl.float32)
        sums += w[None, :] * from_sum(x[None, :], y, SASS)
    e = tl.where(shown, tl.sum(sums, axis=1) * (-2.0 * scale), float("-inf"))
    top = tl.max(e, axis=0)
    p = tl.exp(e - tl.where(top == float("-inf"), 0.0, top))
    total = tl.sum(p, axis=0)
    if WHOLE:
        p = p * tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))
    tl.store(kept + row * (S + Dv) + s, p if WHOLE else e, mask=s < S)
    part = parts + (row * tl.num_programs(0) + block) * (Dv + 2)
    seen = values + n * v_n + s[:, None].to(tl.int64) * v_s
    for start in range(0, Dv, BD):
        d = start + tl.arange(0, BD)
        value = tl.load(seen + d[None, :], mask=shown[:, None] & (d < Dv)[None, :], other=0.0).to(tl.float32)
        mixed = tl.sum(p[:, None] * value, axis=0)
        if WHOLE:
            tl.store(context + row * Dv + d, mixed.to(context.dtype.element_ty), mask=d < Dv)
            tl.store(kept + row * (S + Dv) + S + d, mixed, mask=d < Dv)
        else:
            tl.store(part + d, mixed, mask=d < Dv)
    if not WHOLE:
        tl.store(part + Dv, top)
        tl.store(part + Dv + 1, total)


@triton.jit
def join_kernel(
    context,  # (N, T, Dv)
    kept,  # (N, T, S + Dv)
    parts,  # (N, T, blocks, Dv + 2)
    S,
    blocks,
    Dv: tl.constexpr,
    BLOCKS: tl.constexpr,
    KEYS: tl.constexpr,
    BD: tl.constexpr,
    BS: tl.constexpr,
):
    """The blocks of KEYS keys of one query: some features of its context, and scores to weights.

    Each weight is rounded as in the context's sum, exp(e - top) · factor: what both have in common cancels
    in the gradient.
    """
    row = tl.program_id(1).to(tl.int64)
    i = tl.arange(0, BLOCKS)
    part = parts + (row * blocks + i) * (Dv + 2)
    tops = tl.load(part + Dv, mask=i < blocks, other=float("-inf"))
    totals = tl.load(part + Dv + 1, mask=i < blocks, other=0.0)
    peak = tl.max(tops, axis=0)
    peak = tl.where(peak == float("-inf"), 0.0, peak)
    factors = tl.exp(tops - peak)
    total = tl.sum(factors * totals, axis=0)
    inverse = tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))
    factors *= inverse

    d = tl.program_id(0) * BD + tl.arange(0, BD)
    place = part[:, None] + d[None, :]
    mixed = tl.load(place, mask=(i < blocks)[:, None] & (d < Dv)[None, :], other=0.0)
    mixed = tl.sum(mixed * factors[:, None], axis=0)
    tl.store(context + row * Dv + d, mixed.to(context.dtype.element_ty), mask=d < Dv)
    own = kept + row * (S + Dv)
    tl.store(own + S + d, mixed, mask=d < Dv)
    for start in range(tl.program_id(0) * BS, S, tl.num_programs(0) * BS):
        s = start + tl.arange(0, BS)
        e = tl.load(own + s, mask=s < S, other=float("-inf"))
        top = tl.load(parts + (row * blocks + s // KEYS) * (Dv + 2) + Dv, mask=s < S, other=float("-inf"))
        factor = tl.exp(top - peak) * inverse
        p = tl.exp(e - tl.where(top == float("-inf"), 0.0, top)) * factor
        tl.store(own + s, p, mask=s < S)


@triton.jit(do_not_specialize=["scale"])
def step_gradient_kernel(
    grad,  # (N, T, Dv)
    kept,  # (N, T, S + Dv)
    a,  # (N, T, D)
    b,  # (N, S, D)
    v,  # (D,)
    values,  # (N, S, Dv)
    grad_b,  # (T, N, S, D), if KEYS
    grad_values,  # (T, N, S, Dv), if VALUES
    parts,  # (blocks, N, T, 2, D): what a block gives to a and to v
    N,
    T,
    S,
    b_n,
    b_s,
    v_n,
    v_s,
    scale,
    D: tl.constexpr,
    Dv: tl.constexpr,
    BS: tl.constexpr,
    BD: tl.constexpr,
    KEYS: tl.constexpr,
    VALUES: tl.constexpr,
    SASS: tl.constexpr,
):
    """One block of keys of one query. The mask is in the weights: what is hidden has weight zero."""
    block = tl.program_id(0)
    t = tl.program_id(1)
    n = tl.program_id(2).to(tl.int64)
    s = block * BS + tl.arange(0, BS)
    row = n * T + t
    own = kept + row * (S + Dv)
    p = tl.load(own + s, mask=s < S, other=0.0)
    line = ((t * N + n) * S + s[:, None]).to(tl.int64)

    seen = values + n * v_n + s[:, None].to(tl.int64) * v_s
    sums = tl.zeros((BS, BD), dtype=tl.float32)
    for start in range(0, Dv, BD):
        d = start + tl.arange(0, BD)
        there = (s < S)[:, None] & (d < Dv)[None, :]
        g = tl.load(grad + row * Dv + d, mask=d < Dv, other=0.0).to(tl.float32)
        mean = tl.load(own + S + d, mask=d < Dv, other=0.0)
        value = tl.load(seen + d[None, :], mask=there, other=0.0).to(tl.float32)
        sums += g[None, :] * (value - mean[None, :])
        if VALUES:
            out = grad_values + line * Dv + d[None, :]
            tl.store(out, (p[:, None] * g[None, :]).to(grad_values.dtype.element_ty), mask=there)
    slope = p * tl.sum(sums, axis=1) * scale

    keys = b + n * b_n + s[:, None].to(tl.int64) * b_s
    part = parts + ((block * N + n) * T + t) * 2 * D
    for start in range(0, D, BD):
        d = start + tl.arange(0, BD)
        there = (s < S)[:, None] & (d < D)[None, :]
        x = tl.load(a + row * D + d, mask=d < D, other=0.0).to(tl.float32)
        w = tl.load(v + d, mask=d < D, other=0.0).to(tl.float32)
        y = tl.load(keys + d[None, :], mask=there, other=0.0).to(tl.float32)
        r = from_sum(x[None, :], y, SASS)
        first = slope[:, None] * r
        second = first - first * r
        if KEYS:
            out = grad_b + line * D + d[None, :]
            tl.store(out, (4.0 * w[None, :] * second).to(grad_b.dtype.element_ty), mask=there)
        tl.store(part + d, 4.0 * w * tl.sum(second, axis=0), mask=d < D)
        of_v = -2.0 * tl.sum(slope[:, None] * (r - 0.5), axis=0)  # g · tanh
        tl.store(part + D + d, of_v, mask=d < D)


@triton.jit
def sum_kernel(
    parts,  # (blocks, rows, 2, D)
    grad_a,  # (rows, D)
    grad_v,  # (D,)
    blocks,
    rows,
    D: tl.constexpr,
    BR: tl.constexpr,
    BD: tl.constexpr,
):
    """The gradient of one query, over its blocks; the last program of a column: of v, over everything."""
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    row = tl.program_id(1).to(tl.int64)
    i = tl.arange(0, BR)
    sums = tl.zeros((BR, BD), dtype=tl.float32)
    if row < rows:
        for start in range(0, blocks, BR):
            block = start + i
            place = parts + ((block[:, None] * rows + row) * 2) * D + d[None, :]
            sums += tl.load(place, mask=(block < blocks)[:, None] & (d < D)[None, :], other=0.0)
        total = tl.sum(sums, axis=0)
        tl.store(grad_a + row * D + d, total.to(grad_a.dtype.element_ty), mask=d < D)
    else:
        for start in range(0, blocks * rows, BR):
            line = start + i
            place = parts + (line[:, None].to(tl.int64) * 2 + 1) * D + d[None, :]
            sums += tl.load(place, mask=(line < blocks * rows)[:, None] & (d < D)[None, :], other=0.0)
        total = tl.sum(sums, axis=0)
        tl.store(grad_v + d, total.to(grad_v.dtype.element_ty), mask=d < D)

"""The k largest weights of a softmax of products in Triton, in two passes. See product_looks.py.

Axes: query (B, H, T, D), keys (B, H, S, D), features contiguous; mask (B, H, S) bytes; lines are (B, H, T).
Chunks are CHUNK consecutive source positions: tops (lines, chunks) has the largest product of each. The scale
includes a factor of log2 e, since the device computes powers of two. Products are compared unscaled, and in
the power scaling is fused with the difference.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl

CHUNK = tl.constexpr(16)
HIDDEN = tl.constexpr(-3.0e38)  # below every score, above -inf, which marks what has been taken already


@triton.jit
def first_of(x, index, AFTER: tl.constexpr):
    """The largest element and its first index; cheaper than reducing value and index together."""
    largest = tl.max(x, axis=0)
    return largest, tl.min(tl.where(x == largest, index, AFTER), axis=0)


@triton.jit
def tile(
    q, keys, mask, tops, t, T, d, D: tl.constexpr, start, key_s, highest, sums, WHOLE: tl.constexpr,
    S, offset, chunks, scale, CAUSAL: tl.constexpr, MASKED: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One tile of products: store each chunk's maximum, return the running maximum and sum of each row."""
    s = start + tl.arange(0, BLOCK_S)
    inside = (d < D)[:, None] if WHOLE else (s < S)[None, :] & (d < D)[:, None]
    k = tl.load(keys + s[None, :].to(tl.int64) * key_s + d[:, None], mask=inside, other=0.0)
    e = tl.dot(q, k, input_precision="ieee")
    seen = (s < S)[None, :]
    if not WHOLE:
        if MASKED:
            seen = seen & (tl.load(mask + s, mask=s < S, other=0) != 0)[None, :]
        if CAUSAL:
            seen = seen & (s[None, :] <= t[:, None] + offset)
        e = tl.where(seen, e, HIDDEN)
    groups = tl.max(tl.reshape(e, (q.shape[0], BLOCK_S // CHUNK, CHUNK)), axis=2)
    c = start // CHUNK + tl.arange(0, BLOCK_S // CHUNK)
    tl.store(tops + c[None, :], groups, mask=(t < T)[:, None] & (c < chunks)[None, :])
    higher = tl.maximum(highest, tl.max(groups, axis=1))
    p = tl.exp2(e * scale - (higher * scale)[:, None])
    if not WHOLE:
        p = tl.where(seen, p, 0.0)
    return higher, sums * tl.exp2((highest - higher) * scale) + tl.sum(p, axis=1)


@triton.jit(do_not_specialize=["T", "S", "first", "offset", "chunks", "scale"])
def tops_kernel(
    query, keys, mask, tops, most, total, query_b, query_h, query_t, key_b, key_h, key_s, mask_b, mask_h,
    T, S, first, offset, chunks, scale,
    H: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """The largest product of each chunk; the largest score of each row, and Σ 2^(score - largest)."""
    line = tl.program_id(1).to(tl.int64)
    item = first + line
    b, h = item // H, item % H
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, BLOCK_D)
    inside = (t < T)[:, None] & (d < D)[None, :]
    q = tl.load(
        query + b * query_b + h * query_h + t[:, None].to(tl.int64) * query_t + d[None, :],
        mask=inside,
        other=0.0,
    )
    q = tl.where(scale < 0, -q, q)  # the largest score is that of the largest product
    scale = tl.abs(scale)
    keys += b * key_b + h * key_h
    mask += b * mask_b + h * mask_h
    highest = tl.full((BLOCK_T,), HIDDEN, dtype=tl.float32)
    sums = tl.zeros((BLOCK_T,), dtype=tl.float32)
    tops += (line * T + t[:, None]) * chunks
    end, whole = S, S // BLOCK_S * BLOCK_S
    if CAUSAL:
        end = tl.maximum(0, tl.minimum(S, (tl.program_id(0) + 1) * BLOCK_T + offset))
        whole = tl.maximum(0, tl.minimum(S, tl.program_id(0) * BLOCK_T + offset + 1)) // BLOCK_S * BLOCK_S
    if MASKED:
        whole = 0
    for start in range(0, whole, BLOCK_S):
        highest, sums = tile(
            q, keys, mask, tops, t, T, d, D, start, key_s, highest, sums, True,
            S, offset, chunks, scale, CAUSAL, MASKED, BLOCK_S,
        )  # fmt: skip
    for start in range(whole, end, BLOCK_S):
        highest, sums = tile(
            q, keys, mask, tops, t, T, d, D, start, key_s, highest, sums, False,
            S, offset, chunks, scale, CAUSAL, MASKED, BLOCK_S,
        )  # fmt: skip
    tl.store(most + line * T + t, highest * scale, mask=t < T)
    tl.store(total + line * T + t, sums, mask=t < T)


@triton.jit(do_not_specialize=["T", "S", "first", "offset", "chunks", "scale"])
def pick_kernel(
    query, keys, mask, tops, most, total, weights, places,
    query_b, query_h, query_t, key_b, key_h, key_s, mask_b, mask_h,
    T, S, first, offset, chunks, scale,
    H: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr,
    K: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """One row: the K largest scores are in the K chunks with the largest maxima, which are recomputed."""
    line = tl.program_id(1).to(tl.int64)
    item = first + line
    b, h = item // H, item % H
    t = tl.program_id(0).to(tl.int64)
    row = line * T + t
    end = S
    if CAUSAL:
        end = tl.minimum(S, t + offset + 1)
    c = tl.arange(0, BLOCK_C)
    best = tl.load(tops + row * chunks + c, mask=c * CHUNK < end, other=HIDDEN)
    best = tl.where(c < chunks, best, float("-inf"))
    d = tl.arange(0, BLOCK_D)
    at_query = query + b * query_b + h * query_h + t * query_t + d
    q = tl.load(at_query, mask=d < D, other=0.0).to(tl.float32) * scale
    keys += b * key_b + h * key_h
    mask += b * mask_b + h * mask_h
    n = tl.arange(0, BLOCK_K)[:, None]
    inner = tl.arange(0, CHUNK)
    scores = tl.full((BLOCK_K, CHUNK), float("-inf"), dtype=tl.float32)
    positions = tl.full((BLOCK_K, CHUNK), 0, dtype=tl.int32)
    for i in tl.static_range(K):
        largest, at = first_of(best, c, BLOCK_C)
        best = tl.where(c == at, float("-inf"), best)
        s = tl.where(largest > float("-inf"), at * CHUNK, S) + inner  # past the end once all are taken
        there = s < S
        seen = there & (s < end)
        if MASKED:
            seen = seen & (tl.load(mask + s, mask=there, other=0) != 0)
        inside = seen[:, None] & (d < D)[None, :]
        k = tl.load(keys + s[:, None].to(tl.int64) * key_s + d[None, :], mask=inside, other=0.0)
        e = tl.where(seen, tl.sum(k.to(tl.float32) * q[None, :], axis=1), HIDDEN)
        e = tl.where(there, e, float("-inf"))
        scores = tl.where(n == i, e[None, :], scores)
        positions = tl.where(n == i, s[None, :], positions)
    e = tl.reshape(scores, (BLOCK_K * CHUNK,))
    s = tl.reshape(positions, (BLOCK_K * CHUNK,))
    highest = tl.load(most + row)
    sums = tl.load(total + row)
    index = tl.arange(0, BLOCK_K * CHUNK)
    for i in tl.static_range(K):
        largest, at = first_of(e, index, BLOCK_K * CHUNK)
        weight = tl.where(largest > HIDDEN, tl.exp2(largest - highest) / sums, 0.0)
        tl.store(weights + row * K + i, weight)
        tl.store(places + row * K + i, tl.sum(tl.where(index == at, s, 0), axis=0).to(tl.int64))
        e = tl.where(index == at, float("-inf"), e)

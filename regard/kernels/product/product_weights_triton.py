"""The weights of a softmax of products in Triton. See product_looks.py.

Axes: query (B, H, T, D), keys (B, H, S, D), features contiguous; mask (B, H, S) bytes; weights (B, H, T, S).
The scale includes a factor of log2 e, since the device computes powers of two.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl

HIDDEN = tl.constexpr(-3.0e38)  # below every score


@triton.jit
def scores_of(
    q, keys, mask, t, d, D: tl.constexpr, start, key_s, S, offset, scale, WHOLE: tl.constexpr,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One tile of scores; HIDDEN where a query may not look, unless the tile is WHOLE."""
    s = start + tl.arange(0, BLOCK_S)
    inside = (d < D)[:, None] if WHOLE else (s < S)[None, :] & (d < D)[:, None]
    k = tl.load(keys + s[None, :].to(tl.int64) * key_s + d[:, None], mask=inside, other=0.0)
    e = tl.dot(q, k) * scale
    if not WHOLE:
        seen = (s < S)[None, :]
        if MASKED:
            seen = seen & (tl.load(mask + s, mask=s < S, other=0) != 0)[None, :]
        if CAUSAL:
            seen = seen & (s[None, :] <= t[:, None] + offset)
        e = tl.where(seen, e, HIDDEN)
    return e


@triton.jit
def summed(e, highest, sums, WHOLE: tl.constexpr):
    """The running maximum of each row, and Σ 2^(score - maximum)."""
    higher = tl.maximum(highest, tl.max(e, axis=1))
    p = tl.exp2(e - higher[:, None])
    if not WHOLE:
        p = tl.where(e <= HIDDEN, 0.0, p)
    return higher, sums * tl.exp2(highest - higher) + tl.sum(p, axis=1)


@triton.jit
def store(weights, e, highest, inverse, t, T, start, S, BLOCK_S: tl.constexpr):
    """Weights of one tile; 0 where hidden."""
    s = start + tl.arange(0, BLOCK_S)
    p = tl.where(e <= HIDDEN, 0.0, tl.exp2(e - highest[:, None]) * inverse[:, None])  # NaN stays NaN
    tl.store(weights + s[None, :], p, mask=(t < T)[:, None] & (s < S)[None, :])


@triton.jit(do_not_specialize=["offset", "scale"])
def weights_kernel(
    query, keys, mask, weights, query_b, query_h, query_t, key_b, key_h, key_s, mask_b, mask_h, T, S,
    offset, scale,
    H: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """The weights of BLOCK_T queries of one item."""
    item = tl.program_id(1).to(tl.int64)
    b, h = item // H, item % H
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, BLOCK_D)
    q = tl.load(
        query + b * query_b + h * query_h + t[:, None].to(tl.int64) * query_t + d[None, :],
        mask=(t < T)[:, None] & (d < D)[None, :],
        other=0.0,
    )
    keys += b * key_b + h * key_h
    mask += b * mask_b + h * mask_h
    weights += (item * T + t[:, None]) * S
    end, whole = S, S // BLOCK_S * BLOCK_S
    if CAUSAL:
        end = tl.maximum(0, tl.minimum(S, (tl.program_id(0) + 1) * BLOCK_T + offset))
        whole = tl.maximum(0, tl.minimum(S, tl.program_id(0) * BLOCK_T + offset + 1)) // BLOCK_S * BLOCK_S
    if MASKED:
        whole = 0
    highest = tl.full((BLOCK_T,), HIDDEN, dtype=tl.float32)
    sums = tl.zeros((BLOCK_T,), dtype=tl.float32)
    for start in range(0, whole, BLOCK_S):
        e = scores_of(q, keys, mask, t, d, D, start, key_s, S, offset, scale, True, CAUSAL, MASKED, BLOCK_S)
        highest, sums = summed(e, highest, sums, True)
    for start in range(whole, end, BLOCK_S):
        e = scores_of(q, keys, mask, t, d, D, start, key_s, S, offset, scale, False, CAUSAL, MASKED, BLOCK_S)
        highest, sums = summed(e, highest, sums, False)
    inverse = tl.where(sums == 0.0, 0.0, 1.0 / tl.where(sums == 0.0, 1.0, sums))
    for start in range(0, whole, BLOCK_S):
        e = scores_of(q, keys, mask, t, d, D, start, key_s, S, offset, scale, True, CAUSAL, MASKED, BLOCK_S)
        store(weights, e, highest, inverse, t, T, start, S, BLOCK_S)
    for start in range(whole, end, BLOCK_S):
        e = scores_of(q, keys, mask, t, d, D, start, key_s, S, offset, scale, False, CAUSAL, MASKED, BLOCK_S)
        store(weights, e, highest, inverse, t, T, start, S, BLOCK_S)
    hidden = tl.full((BLOCK_T, BLOCK_S), HIDDEN, dtype=tl.float32)
    for start in range((end + BLOCK_S - 1) // BLOCK_S * BLOCK_S, S, BLOCK_S):
        store(weights, hidden, highest, inverse, t, T, start, S, BLOCK_S)

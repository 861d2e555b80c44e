"""Many queries: from the gradient of the weights to those of the scores, and from these to a, b and v.

    grad_a[t] = 4 v Σ_s g r (1 - r),   grad_b[s] = 4 v Σ_t g r (1 - r),   grad_v = Σ g tanh = Σ g - 2 Σ g r

with g = d loss / d score. Each program stores its own sums; `join_kernel` adds them up.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl

from regard.kernels.additive.additive_triton.arithmetic import LIMIT_OF_TWO, load_four, reciprocal, sigmoid
from regard.kernels.additive.additive_triton.expand import SPAN


@triton.jit(do_not_specialize=["scale"])
def slopes_kernel(weights, grads, S, scale, BLOCK: tl.constexpr):
    """Each row of grads, in place: d loss / d weight -> d loss / d score."""
    row = tl.program_id(0).to(tl.int64) * S
    s = tl.arange(0, BLOCK)
    means = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, S, BLOCK):
        p = tl.load(weights + row + start + s, mask=start + s < S, other=0.0)
        means += p * tl.load(grads + row + start + s, mask=start + s < S, other=0.0)
    mean = tl.sum(means, axis=0)
    for start in range(0, S, BLOCK):
        p = tl.load(weights + row + start + s, mask=start + s < S, other=0.0)
        g = tl.load(grads + row + start + s, mask=start + s < S, other=0.0)
        tl.store(grads + row + start + s, p * (g - mean) * scale, mask=start + s < S)


@triton.jit
def furthest(reach, first, last, SPANS: tl.constexpr):
    """The largest reach over spans first to last."""
    most = tl.zeros((SPANS,), dtype=tl.float32)
    for start in range(first, last, SPANS):
        i = start + tl.arange(0, SPANS)
        most = tl.maximum(most, tl.load(reach + i, mask=i < last, other=0.0))
    return tl.max(most, axis=0)


@triton.jit
def inner_sum(x):
    """The sum over the positions of one thread."""
    return tl.sum(tl.sum(x, axis=2), axis=1)


@triton.jit
def two_reciprocals(a1, a2, b1, b2, SASS: tl.constexpr):
    """1 / (1 + a1 b1) and 1 / (1 + a2 b2) from a single reciprocal."""
    x1 = a1 * b1 + 1.0
    x2 = a2 * b2 + 1.0
    inverse = reciprocal(x1 * x2, SASS)
    return x2 * inverse, x1 * inverse


@triton.jit
def add_feature(first, slope, g, r, w, out, MIDDLE: tl.constexpr):
    """first += g (r - middle), slope += g r (1 - r); the sum of the latter is this row's gradient of a."""
    q = g * (r - r * r)
    tl.store(out, 4.0 * w * tl.sum(inner_sum(q), axis=0))
    if MIDDLE:
        r -= 0.5
    return first + inner_sum(g * r), slope + q


@triton.jit
def gradient_kernel(
    a,  # (N, T, D), as given
    b,  # (N, S, D)
    A,  # (N, G, T_pad, 4) exponentials
    B,  # (N, G, S_pad, 4)
    weights,  # (G * 4,)
    reach_a, reach_b,
    slopes,  # (items, rows, S): d loss / d score
    grad_a,  # (blocks, items, G, rows made even, 4)
    grad_b,  # (splits, items, G * 4, S)
    grad_v,  # (splits, blocks, items, G * 4)
    first_item, first_row, items, rows, S, D, T_pad, S_pad, G, a_n, a_t, b_n, b_s,
    part,  # rows per split, even
    C: tl.constexpr, MIDDLE: tl.constexpr, EXACT: tl.constexpr, SASS: tl.constexpr,
):  # fmt: skip
    """All three gradients of the score at once, for four features, one block of S and some rows.

    MIDDLE: grad_v from r - 1/2, which takes one more operation and is accurate to the last digits of float32;
    without it Σ g is left to the caller. A program is one warp, so a sum over its block needs no barrier; the
    caller sums over blocks and splits, in a fixed order. EXACT runs only the programs whose exponentials
    reach too far, from the sum a + b; otherwise only the others run, from the product.
    """
    BS: tl.constexpr = C * 128
    group = tl.program_id(0)
    blocks = tl.cdiv(S, BS)
    block = tl.program_id(1) % blocks
    split = tl.program_id(1) // blocks
    item = tl.program_id(2).to(tl.int64)
    n = first_item + item
    t0 = split * part
    t1 = min(t0 + part, rows)
    w1, w2, w3, w4 = load_four(weights + 4 * group, SASS)

    line_a = (n * G + group) * (T_pad // SPAN)
    line_b = (n * G + group) * (S_pad // SPAN)
    end = (min((block + 1) * BS, S) + SPAN - 1) // SPAN
    far_a = furthest(reach_a + line_a, (first_row + t0) // SPAN, (first_row + t1 + SPAN - 1) // SPAN, 32)
    far_b = furthest(reach_b + line_b, block * BS // SPAN, end, 32)
    near = far_a + far_b <= LIMIT_OF_TWO
    if EXACT:
        if near:
            return
    else:
        if not near:
            return

    # lanes first: four neighbours per lane are one load, and sums over the last two axes stay in a thread
    inner = tl.arange(0, C)[None, :, None] * 128 + tl.arange(0, 4)[None, None, :]
    s = block * BS + tl.arange(0, 32)[:, None, None] * 4 + inner
    inside = s < S
    s1 = tl.zeros((32, C, 4), dtype=tl.float32)
    s2, s3, s4 = s1, s1, s1
    f1 = tl.zeros((32,), dtype=tl.float32)
    f2, f3, f4 = f1, f1, f1
    rows_of_a = grad_a + ((block * items + item) * G + group) * (rows + rows % 2) * 4
    if not EXACT:
        # clamp to the last position beyond the end: its weight is zero, but the value must be finite
        own = tl.minimum(s, S - 1)
        b1, b2, b3, b4 = load_four(B + ((n * G + group) * S_pad + own) * 4, SASS)
        line = A + ((n * G + group) * T_pad + first_row) * 4
        for t in range(t0, t1, 2):
            # two rows per iteration; A and grad_a are padded, so an extra row exists and has weight zero
            seen = tl.where(t + 1 < t1, S, 0)
            g = tl.load(slopes + (item * rows + t) * S + s, mask=inside, other=0.0)
            h = tl.load(slopes + (item * rows + t + 1) * S + s, mask=s < seen, other=0.0)
            a1, a2, a3, a4 = load_four(line + t * 4, SASS)
            c1, c2, c3, c4 = load_four(line + t * 4 + 4, SASS)
            out = rows_of_a + t * 4
            r1, r2 = two_reciprocals(a1, a2, b1, b2, SASS)
            f1, s1 = add_feature(f1, s1, g, r1, w1, out, MIDDLE)
            f2, s2 = add_feature(f2, s2, g, r2, w2, out + 1, MIDDLE)
            r3, r4 = two_reciprocals(a3, a4, b3, b4, SASS)
            f3, s3 = add_feature(f3, s3, g, r3, w3, out + 2, MIDDLE)
            f4, s4 = add_feature(f4, s4, g, r4, w4, out + 3, MIDDLE)
            r1, r2 = two_reciprocals(c1, c2, b1, b2, SASS)
            f1, s1 = add_feature(f1, s1, h, r1, w1, out + 4, MIDDLE)
            f2, s2 = add_feature(f2, s2, h, r2, w2, out + 5, MIDDLE)
            r3, r4 = two_reciprocals(c3, c4, b3, b4, SASS)
            f3, s3 = add_feature(f3, s3, h, r3, w3, out + 6, MIDDLE)
            f4, s4 = add_feature(f4, s4, h, r4, w4, out + 7, MIDDLE)
    else:
        d = group * 4
        keys = b + n * b_n + s.to(tl.int64) * b_s + d
        feature = tl.where(inside, d, D)
        y1 = tl.load(keys, mask=feature < D, other=0.0).to(tl.float32)
        y2 = tl.load(keys + 1, mask=feature + 1 < D, other=0.0).to(tl.float32)
        y3 = tl.load(keys + 2, mask=feature + 2 < D, other=0.0).to(tl.float32)
        y4 = tl.load(keys + 3, mask=feature + 3 < D, other=0.0).to(tl.float32)
        for t in range(t0, t1):
            g = tl.load(slopes + (item * rows + t) * S + s, mask=inside, other=0.0)
            query = a + n * a_n + (first_row + t).to(tl.int64) * a_t + d
            x1 = tl.load(query, mask=d < D, other=0.0).to(tl.float32)
            x2 = tl.load(query + 1, mask=d + 1 < D, other=0.0).to(tl.float32)
            x3 = tl.load(query + 2, mask=d + 2 < D, other=0.0).to(tl.float32)
            x4 = tl.load(query + 3, mask=d + 3 < D, other=0.0).to(tl.float32)
            out = rows_of_a + t * 4
            f1, s1 = add_feature(f1, s1, g, sigmoid(x1 + y1, SASS), w1, out, MIDDLE)
            f2, s2 = add_feature(f2, s2, g, sigmoid(x2 + y2, SASS), w2, out + 1, MIDDLE)
            f3, s3 = add_feature(f3, s3, g, sigmoid(x3 + y3, SASS), w3, out + 2, MIDDLE)
            f4, s4 = add_feature(f4, s4, g, sigmoid(x4 + y4, SASS), w4, out + 3, MIDDLE)
    out = grad_b + ((split * items + item) * G + group) * 4 * S + s
    tl.store(out, 4.0 * w1 * s1, mask=inside)
    tl.store(out + S, 4.0 * w2 * s2, mask=inside)
    tl.store(out + 2 * S, 4.0 * w3 * s3, mask=inside)
    tl.store(out + 3 * S, 4.0 * w4 * s4, mask=inside)
    out = grad_v + (((split * blocks + block) * items + item) * G + group) * 4
    tl.store(out, -2.0 * tl.sum(f1, axis=0))
    tl.store(out + 1, -2.0 * tl.sum(f2, axis=0))
    tl.store(out + 2, -2.0 * tl.sum(f3, axis=0))
    tl.store(out + 3, -2.0 * tl.sum(f4, axis=0))


@triton.jit
def sum_of_parts(first, step, parts, there):
    """Σ over `parts` tiles, in order, the first at `first`, each a `step` after the one before.

    Four loads are in flight at a time; single loads would wait for each other.
    """
    total = tl.load(first, mask=there, other=0.0)
    for start in range(1, parts, 4):
        part = tl.where(there, start, parts)
        x1 = tl.load(first + start * step, mask=there, other=0.0)
        x2 = tl.load(first + (start + 1) * step, mask=part + 1 < parts, other=0.0)
        x3 = tl.load(first + (start + 2) * step, mask=part + 2 < parts, other=0.0)
        x4 = tl.load(first + (start + 3) * step, mask=part + 3 < parts, other=0.0)
        total = (((total + x1) + x2) + x3) + x4
    return total


@triton.jit
def join_v(parts, more, out, tile, lines, D, G, LINES: tl.constexpr, MORE: tl.constexpr):
    """Eight features of grad_v from parts (lines, G * 4)."""
    d = tile * 8 + tl.arange(0, 8)
    sums = tl.zeros((LINES, 8), dtype=tl.float32)
    for start in range(0, lines, LINES):
        line = start + tl.arange(0, LINES)
        place = parts + line[:, None].to(tl.int64) * (G * 4) + d[None, :]
        sums += tl.load(place, mask=(line < lines)[:, None] & (d < D)[None, :], other=0.0)
    total = tl.sum(sums, axis=0)
    if MORE:
        total += tl.load(more)
    tl.store(out + d, total.to(out.dtype.element_ty), mask=d < D)


@triton.jit
def join_a(parts, out, tile, count, N, T, D, G, POSITIONS: tl.constexpr, GROUPS: tl.constexpr):
    """Some positions and groups of features of one item of grad_a from parts (count, N, G, rows, 4)."""
    rows = T + T % 2
    columns = tl.cdiv(G, GROUPS)
    n = (tile // columns // tl.cdiv(T, POSITIONS)).to(tl.int64)
    t = tile // columns % tl.cdiv(T, POSITIONS) * POSITIONS + tl.arange(0, POSITIONS)
    g = tile % columns * GROUPS + tl.arange(0, GROUPS)
    feature = tl.arange(0, 4)[None, None, :]
    place = parts + (n * G + g[:, None, None]) * rows * 4 + t[None, :, None] * 4 + feature
    there = (g < G)[:, None, None] & (t < T)[None, :, None] & (feature < 4)
    total = sum_of_parts(place, N.to(tl.int64) * G * rows * 4, count, there)
    total = tl.permute(total, (1, 0, 2))  # so that the features of a position are stored contiguously
    d = g[None, :, None] * 4 + feature
    place = out + (n * T + t[:, None, None]) * D + d
    tl.store(place, total.to(out.dtype.element_ty), mask=(t < T)[:, None, None] & (d < D))


@triton.jit
def join_b(parts, out, tile, count, N, S, D, G, POSITIONS: tl.constexpr, GROUPS: tl.constexpr):
    """The same for grad_b from parts (count, N, G * 4, S)."""
    columns = tl.cdiv(G, GROUPS)
    n = (tile // columns // tl.cdiv(S, POSITIONS)).to(tl.int64)
    s = tile // columns % tl.cdiv(S, POSITIONS) * POSITIONS + tl.arange(0, POSITIONS)
    d = tile % columns * (GROUPS * 4) + tl.arange(0, GROUPS * 4)
    place = parts + (n * G * 4 + d[:, None]) * S + s[None, :]
    there = (d < D)[:, None] & (s < S)[None, :]
    total = tl.trans(sum_of_parts(place, N.to(tl.int64) * G * 4 * S, count, there))
    place = out + (n * S + s[:, None]) * D + d[None, :]
    tl.store(place, total.to(out.dtype.element_ty), mask=(s < S)[:, None] & (d < D)[None, :])


@triton.jit(do_not_specialize=["N", "blocks", "splits"])
def join_kernel(
    parts_a,  # (blocks, N, G, T made even, 4), as gradient_kernel left them
    parts_b,  # (splits, N, G * 4, S)
    parts_v,  # (splits, blocks, N, G * 4)
    more,  # (1,): to be added to all of grad_v, if MORE
    grad_a,  # (N, T, D)
    grad_b,  # (N, S, D)
    grad_v,  # (D,)
    T, S, D, G, N, blocks, splits, LINES: tl.constexpr, POSITIONS: tl.constexpr, GROUPS: tl.constexpr,
    MORE: tl.constexpr,
):  # fmt: skip
    """Sums over blocks and splits, in the layout and dtype of a, b and v; the tiles of v come first."""
    of_v = tl.cdiv(D, 8)
    of_a = N * tl.cdiv(T, POSITIONS) * tl.cdiv(G, GROUPS)
    tile = tl.program_id(0)
    if tile < of_v:
        join_v(parts_v, more, grad_v, tile, splits * blocks * N, D, G, LINES, MORE)
    elif tile < of_v + of_a:
        join_a(parts_a, grad_a, tile - of_v, blocks, N, T, D, G, POSITIONS, GROUPS)
    else:
        join_b(parts_b, grad_b, tile - of_v - of_a, splits, N, S, D, G, POSITIONS, GROUPS)

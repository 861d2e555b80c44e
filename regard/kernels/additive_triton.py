"""Additive attention on a GPU: the Triton kernels. additive_cuda.py and additive_step_cuda.py launch them.

Imported only when a kernel runs, because Triton is optional.

    x = A·B = e^{2a} e^{2b},   r = 1 / (1 + x),   tanh(a + b) = 1 - 2 r

`expand` writes the exponentials so that the four features that share a reciprocal lie side by side, (N, G,
T, 4): one 16-byte load brings them. It also writes how far |a| reaches in each span of positions and group
of features. Where two reaches add up to more than a limit, a product could overflow: such a tile forms the
sum a + b first. G is even: two groups are taken at a time.

A tile of scores has four axes, (rows in a thread, columns in a thread, threads along T, threads along S):
the work of a thread is then a small square, which is what keeps loads rare. SASS marks the paths written
for NVIDIA's assembler; the same formulas without it are what Triton's interpreter runs.
"""
# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-def"
# mypy: disable-error-code="no-untyped-call, untyped-decorator"

import triton
import triton.language as tl

LIMIT = tl.constexpr(10.3)  # e^{2·10.3} < 2^30, so four factors 1 + x stay below 2^124
LIMIT_OF_TWO = tl.constexpr(20.0)  # e^{2·20} < 2^58, so two stay below 2^120
SPAN = tl.constexpr(32)  # positions that share one reach, as in tuning.py
TWO_LOG2E = tl.constexpr(2.8853900817779268)

LOAD_FOUR = tl.constexpr("ld.global.nc.v4.f32 {$0, $1, $2, $3}, [$4];")

# $0: sum out, $1: sum in, $2-$5: a, $6-$9: b, $10-$13: w
FOUR_QUOTIENTS = tl.constexpr(
    """{
    .reg .f32 x1, x2, x3, x4, front, back, left, right;
    fma.rn.f32 x1, $2, $6, 0f3F800000;
    fma.rn.f32 x2, $3, $7, 0f3F800000;
    fma.rn.f32 x3, $4, $8, 0f3F800000;
    fma.rn.f32 x4, $5, $9, 0f3F800000;
    mul.rn.f32 front, x1, x2;
    mul.rn.f32 back, x3, x4;
    mul.rn.f32 left, $10, x2;
    fma.rn.f32 left, $11, x1, left;
    mul.rn.f32 right, $12, x4;
    fma.rn.f32 right, $13, x3, right;
    mul.rn.f32 left, left, back;
    fma.rn.f32 left, right, front, left;
    mul.rn.f32 front, front, back;
    rcp.approx.ftz.f32 front, front;
    fma.rn.f32 $0, left, front, $1;
    }"""
)


@triton.jit
def reciprocal(x, SASS: tl.constexpr):
    """1 / x to one unit in the last place."""
    if SASS:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 1.0 / x


@triton.jit
def load_four(pointers, SASS: tl.constexpr):
    """Four features of each position."""
    if SASS:
        return tl.inline_asm_elementwise(
            LOAD_FOUR,
            "=f,=f,=f,=f,l",
            [pointers],
            dtype=(tl.float32, tl.float32, tl.float32, tl.float32),
            is_pure=True,
            pack=1,
        )
    return tl.load(pointers), tl.load(pointers + 1), tl.load(pointers + 2), tl.load(pointers + 3)


@triton.jit
def add_quotients(total, a1, a2, a3, a4, b1, b2, b3, b4, w1, w2, w3, w4, SASS: tl.constexpr):
    """total + w1/x1 + w2/x2 + w3/x3 + w4/x4, one reciprocal for the four."""
    if SASS:
        return tl.inline_asm_elementwise(
            FOUR_QUOTIENTS,
            "=f,f,f,f,f,f,f,f,f,f,f,f,f,f",
            [total, a1, a2, a3, a4, b1, b2, b3, b4, w1, w2, w3, w4],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    x1 = a1 * b1 + 1.0
    x2 = a2 * b2 + 1.0
    x3 = a3 * b3 + 1.0
    x4 = a4 * b4 + 1.0
    front = x1 * x2
    back = x3 * x4
    left = (w1 * x2 + w2 * x1) * back + (w3 * x4 + w4 * x3) * front
    return total + left / (front * back)


@triton.jit
def from_sum(a, b, SASS: tl.constexpr):
    """r = 1 / (1 + e^{2(a + b)}), the sum formed first; e^{2·40} is saturation and no overflow."""
    x = a + b
    x = tl.where(x > 40.0, 40.0, x)  # not tl.minimum, which would lose NaN
    return reciprocal(1.0 + tl.exp2(x * TWO_LOG2E), SASS)


@triton.jit
def exponential(x):
    """e^x to a unit in the last place, for |x| <= 80: outside the inner loop accuracy is cheap."""
    k = tl.floor(x * 1.4426950408889634 + 0.5)
    f = (x - k * 0.693359375) + k * 2.12194440e-4  # ln 2 in two parts, the first exact in few bits
    p = f * (1.0 / 5040.0) + 1.0 / 720.0
    p = p * f + 1.0 / 120.0
    p = p * f + 1.0 / 24.0
    p = p * f + 1.0 / 6.0
    p = p * f + 0.5
    p = p * f * f + f + 1.0
    power = (k.to(tl.int32) + 127) << 23
    return tl.where(x == x, p * power.to(tl.float32, bitcast=True), x)


@triton.jit
def expand(X, out, reach, span, n, T, D, stride_n, stride_t, stride_d, T_pad, G, GROUPS: tl.constexpr):
    """One span of positions, some groups of features."""
    t = span * SPAN + tl.arange(0, SPAN)
    first = tl.program_id(1) * GROUPS
    f = first * 4 + tl.arange(0, GROUPS * 4)
    there = (t[:, None] < T) & (f[None, :] < D)
    place = X + n * stride_n + t[:, None].to(tl.int64) * stride_t + f[None, :] * stride_d
    x = tl.load(place, mask=there, other=0.0).to(tl.float32)
    kept = tl.where(x > 40.0, 40.0, tl.where(x < -40.0, -40.0, x))  # beyond, the reach asks for the sum
    g = f[None, :] // 4
    place = (n * G + g) * T_pad * 4 + t[:, None] * 4 + f[None, :] % 4
    tl.store(out + place, tl.where(there, exponential(2.0 * kept), 0.0), mask=g < G)
    size = tl.max(tl.max(tl.reshape(tl.abs(x), (SPAN, GROUPS, 4)), axis=2), axis=0)
    group = first + tl.arange(0, GROUPS)
    tl.store(reach + (n * G + group) * (T_pad // SPAN) + span, size, mask=group < G)


@triton.jit
def expand_kernel(
    a,  # (N, T, D)
    b,  # (N, S, D)
    A,  # (N, G, T_pad, 4)
    B,
    reach_a,  # (N, G, T_pad / SPAN)
    reach_b,
    T,
    S,
    D,
    a_n,
    a_t,
    a_d,
    b_n,
    b_s,
    b_d,
    T_pad,
    S_pad,
    G,
    GROUPS: tl.constexpr,
):
    """e^{2a}, e^{2b} and how far |a| and |b| reach; zero where there is no position or feature."""
    span = tl.program_id(0)
    n = tl.program_id(2).to(tl.int64)
    spans = T_pad // SPAN
    if span < spans:
        expand(a, A, reach_a, span, n, T, D, a_n, a_t, a_d, T_pad, G, GROUPS)
    else:
        expand(b, B, reach_b, span - spans, n, S, D, b_n, b_s, b_d, S_pad, G, GROUPS)


@triton.jit
def is_near(
    far_a, far_b, spans_a, spans_b, G, COUNT_A: tl.constexpr, COUNT_B: tl.constexpr, GROUPS: tl.constexpr
):
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
        near = near & (tl.max(reach_a + reach_b, axis=0) <= LIMIT)
    return near


@triton.jit
def scores_kernel(
    A,  # (N, G, T_pad, 4) exponentials
    B,  # (N, G, S_pad, 4)
    V,  # (G * 4,)
    reach_a,  # (N, G, T_pad / SPAN)
    reach_b,
    a,  # (N, T, D), as given
    b,  # (N, S, D)
    lengths,
    dense,
    out,  # (items, rows, S)
    first_item,
    first_row,
    rows,
    T,
    S,
    D,
    T_pad,
    S_pad,
    G,
    a_n,
    a_t,
    a_d,
    b_n,
    b_s,
    b_d,
    lengths_share,
    dense_share,
    dense_n,
    dense_t,
    dense_s,
    left,
    right,
    offset,
    scale,
    RT: tl.constexpr,
    RS: tl.constexpr,
    WT: tl.constexpr,
    WS: tl.constexpr,
    CHUNK: tl.constexpr,
    HAS_LENGTHS: tl.constexpr,
    HAS_DENSE: tl.constexpr,
    HAS_LEFT: tl.constexpr,
    HAS_RIGHT: tl.constexpr,
    SASS: tl.constexpr,
):
    """out[t, s] = scale · (-2 Σ_d v_d r), -inf where hidden; Σ v is a constant that softmax forgets."""
    BT: tl.constexpr = RT * WT
    BS: tl.constexpr = RS * WS
    s0 = tl.program_id(0) * BS
    t0 = first_row + tl.program_id(1) * BT
    item = tl.program_id(2)
    n = (first_item + item).to(tl.int64)

    spans_a = T_pad // SPAN
    spans_b = S_pad // SPAN
    near = is_near(
        reach_a + n * G * spans_a + t0 // SPAN,
        reach_b + n * G * spans_b + s0 // SPAN,
        spans_a,
        spans_b,
        G,
        (BT + SPAN - 1) // SPAN,
        (BS + SPAN - 1) // SPAN,
        64,
    )
    seen = True
    length = S
    if HAS_LENGTHS:
        length = tl.load(lengths + n // lengths_share).to(tl.int32)
        seen = s0 < length
    if HAS_LEFT:
        seen = seen & (s0 + BS - 1 >= t0 + offset - left)
    if HAS_RIGHT:
        seen = seen & (s0 <= t0 + BT - 1 + offset + right)

    t = t0 + tl.arange(0, BT)
    s = s0 + tl.arange(0, BS)
    e = tl.zeros((BT, BS), dtype=tl.float32)
    if seen:
        if near:
            total = tl.zeros((RT, RS, WT, WS), dtype=tl.float32)
            t4 = (t0 + tl.arange(0, RT)[:, None] * WT + tl.arange(0, WT)[None, :])[:, None, :, None]
            s4 = (s0 + tl.arange(0, RS)[:, None] * WS + tl.arange(0, WS)[None, :])[None, :, None, :]
            own_a = A + n * G * T_pad * 4 + t4 * 4
            own_b = B + n * G * S_pad * 4 + s4 * 4
            for start in range(0, G, CHUNK):
                part = tl.zeros((RT, RS, WT, WS), dtype=tl.float32)
                for g in range(start, min(start + CHUNK, G), 2):
                    # two groups to a turn: the second is on its way while the first is computed
                    a1, a2, a3, a4 = load_four(own_a + g * (T_pad * 4), SASS)
                    b1, b2, b3, b4 = load_four(own_b + g * (S_pad * 4), SASS)
                    w1, w2, w3, w4 = load_four(V + 4 * g, SASS)
                    a5, a6, a7, a8 = load_four(own_a + (g + 1) * (T_pad * 4), SASS)
                    b5, b6, b7, b8 = load_four(own_b + (g + 1) * (S_pad * 4), SASS)
                    w5, w6, w7, w8 = load_four(V + 4 * g + 4, SASS)
                    part = add_quotients(part, a1, a2, a3, a4, b1, b2, b3, b4, w1, w2, w3, w4, SASS)
                    part = add_quotients(part, a5, a6, a7, a8, b5, b6, b7, b8, w5, w6, w7, w8, SASS)
                total += part
            e = tl.reshape(tl.permute(total, (0, 2, 1, 3)), (BT, BS))
        else:
            raw_a = a + n * a_n + t.to(tl.int64) * a_t
            raw_b = b + n * b_n + s.to(tl.int64) * b_s
            for d in range(0, D):
                x = tl.load(raw_a + d * a_d, mask=t < T, other=0.0).to(tl.float32)
                y = tl.load(raw_b + d * b_d, mask=s < S, other=0.0).to(tl.float32)
                e += tl.load(V + d) * from_sum(x[:, None], y[None, :], SASS)

    shown = (s < length)[None, :] & (t < T)[:, None]
    if HAS_LEFT:
        shown = shown & (s[None, :] >= t[:, None] + offset - left)
    if HAS_RIGHT:
        shown = shown & (s[None, :] <= t[:, None] + offset + right)
    inside = (t < first_row + rows)[:, None] & (s < S)[None, :]
    if HAS_DENSE:
        some = dense + (n // dense_share) * dense_n + t[:, None].to(tl.int64) * dense_t + s[None, :] * dense_s
        shown = shown & (tl.load(some, mask=inside, other=0) != 0)
    e = tl.where(shown & seen, e * (-2.0 * scale), float("-inf"))
    place = (item.to(tl.int64) * rows + (t - first_row)[:, None]) * S + s[None, :]
    tl.store(out + place, e, mask=inside)


@triton.jit
def softmax_kernel(scores, weights, S, BLOCK: tl.constexpr):
    """Each row of scores to weights, in the dtype of `weights`; zeros where a row sees nothing."""
    row = tl.program_id(0).to(tl.int64) * S
    s = tl.arange(0, BLOCK)
    peaks = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for start in range(0, S, BLOCK):
        peaks = tl.maximum(peaks, tl.load(scores + row + start + s, mask=start + s < S, other=float("-inf")))
    peak = tl.max(peaks, axis=0)
    peak = tl.where(peak == float("-inf"), 0.0, peak)
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, S, BLOCK):
        e = tl.load(scores + row + start + s, mask=start + s < S, other=float("-inf"))
        sums += tl.exp(e - peak)
    total = tl.sum(sums, axis=0)
    factor = tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))
    for start in range(0, S, BLOCK):
        e = tl.load(scores + row + start + s, mask=start + s < S, other=float("-inf"))
        p = tl.exp(e - peak) * factor
        tl.store(weights + row + start + s, p.to(weights.dtype.element_ty), mask=start + s < S)


@triton.jit
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
    """Over the positions that one thread holds."""
    return tl.sum(tl.sum(x, axis=2), axis=1)


@triton.jit
def two_reciprocals(a1, a2, b1, b2, SASS: tl.constexpr):
    """1 / (1 + a1 b1) and 1 / (1 + a2 b2) from one reciprocal."""
    x1 = a1 * b1 + 1.0
    x2 = a2 * b2 + 1.0
    inverse = reciprocal(x1 * x2, SASS)
    return x2 * inverse, x1 * inverse


@triton.jit
def add_feature(first, slope, g, r, w, out, MIDDLE: tl.constexpr):
    """first += g (r - middle), slope += g r (1 - r), and the sum of the latter is this row's gradient."""
    q = g * (r - r * r)
    tl.store(out, 4.0 * w * tl.sum(inner_sum(q), axis=0))
    if MIDDLE:
        r -= 0.5
    return first + inner_sum(g * r), slope + q


@triton.jit
def gradient_kernel(
    A,  # (N, G, T_pad, 4) exponentials
    B,  # (N, G, S_pad, 4)
    V,  # (G * 4,)
    reach_a,
    reach_b,
    a,  # (N, T, D), as given
    b,  # (N, S, D)
    slopes,  # (items, rows, S): d loss / d score
    grad_a,  # (blocks, items, G, rows made even, 4)
    grad_b,  # (splits, items, G * 4, S)
    grad_v,  # (splits, blocks, items, G * 4)
    first_item,
    first_row,
    items,
    rows,
    S,
    D,
    T_pad,
    S_pad,
    G,
    a_n,
    a_t,
    a_d,
    b_n,
    b_s,
    b_d,
    part,  # rows to a split, even
    C: tl.constexpr,
    MIDDLE: tl.constexpr,
    EXACT: tl.constexpr,
    SASS: tl.constexpr,
):
    """Four features, one block of S, some rows: all three gradients of the score at once.

    grad_a[t] = 4 v Σ_s g r (1 - r), grad_b[s] = 4 v Σ_t g r (1 - r), grad_v = Σ g tanh = Σ g - 2 Σ g r.
    MIDDLE: grad_v from r - 1/2, one operation more and exact to the last digits of float32; without it Σ g is
    left to the caller. A program is one warp, so that a sum over its block needs no barrier; sums over blocks
    and splits are left to the caller, in a fixed order. EXACT: the programs whose exponentials reach too far,
    from the sum a + b; otherwise the others, from the product.
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
    w1, w2, w3, w4 = load_four(V + 4 * group, SASS)

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

    # lanes first: four neighbours of each are one load, and sums over the last two axes stay in a thread
    inner = tl.arange(0, C)[None, :, None] * 128 + tl.arange(0, 4)[None, None, :]
    s = block * BS + tl.arange(0, 32)[:, None, None] * 4 + inner
    inside = s < S
    s1 = tl.zeros((32, C, 4), dtype=tl.float32)
    s2, s3, s4 = s1, s1, s1
    f1 = tl.zeros((32,), dtype=tl.float32)
    f2, f3, f4 = f1, f1, f1
    rows_of_a = grad_a + ((block * items + item) * G + group) * (rows + rows % 2) * 4
    if not EXACT:
        b1, b2, b3, b4 = load_four(B + ((n * G + group) * S_pad + s) * 4, SASS)
        line = A + ((n * G + group) * T_pad + first_row) * 4
        for t in range(t0, t1, 2):
            # two rows to a turn; A is padded, and so is grad_a: a row too many is there, and weighs nothing
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
        keys = b + n * b_n + s.to(tl.int64) * b_s + d * b_d
        feature = tl.where(inside, d, D)
        y1 = tl.load(keys, mask=feature < D, other=0.0).to(tl.float32)
        y2 = tl.load(keys + b_d, mask=feature + 1 < D, other=0.0).to(tl.float32)
        y3 = tl.load(keys + 2 * b_d, mask=feature + 2 < D, other=0.0).to(tl.float32)
        y4 = tl.load(keys + 3 * b_d, mask=feature + 3 < D, other=0.0).to(tl.float32)
        for t in range(t0, t1):
            g = tl.load(slopes + (item * rows + t) * S + s, mask=inside, other=0.0)
            query = a + n * a_n + (first_row + t).to(tl.int64) * a_t + d * a_d
            x1 = tl.load(query, mask=d < D, other=0.0).to(tl.float32)
            x2 = tl.load(query + a_d, mask=d + 1 < D, other=0.0).to(tl.float32)
            x3 = tl.load(query + 2 * a_d, mask=d + 2 < D, other=0.0).to(tl.float32)
            x4 = tl.load(query + 3 * a_d, mask=d + 3 < D, other=0.0).to(tl.float32)
            out = rows_of_a + t * 4
            f1, s1 = add_feature(f1, s1, g, from_sum(x1, y1, SASS), w1, out, MIDDLE)
            f2, s2 = add_feature(f2, s2, g, from_sum(x2, y2, SASS), w2, out + 1, MIDDLE)
            f3, s3 = add_feature(f3, s3, g, from_sum(x3, y3, SASS), w3, out + 2, MIDDLE)
            f4, s4 = add_feature(f4, s4, g, from_sum(x4, y4, SASS), w4, out + 3, MIDDLE)
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
def step_scores_kernel(
    a,  # (N, T, D)
    b,  # (N, S, D)
    V,
    lengths,
    dense,
    out,  # (N, T, S)
    T,
    S,
    D,
    a_n,
    a_t,
    a_d,
    b_n,
    b_s,
    b_d,
    lengths_share,
    dense_share,
    dense_n,
    dense_t,
    dense_s,
    left,
    right,
    offset,
    scale,
    BS: tl.constexpr,
    BD: tl.constexpr,
    HAS_LENGTHS: tl.constexpr,
    HAS_DENSE: tl.constexpr,
    HAS_LEFT: tl.constexpr,
    HAS_RIGHT: tl.constexpr,
    SASS: tl.constexpr,
):
    """Scores of few queries: each key is read once per query, so exponentials beforehand gain nothing."""
    s = tl.program_id(0) * BS + tl.arange(0, BS)
    t = tl.program_id(1)
    n = tl.program_id(2).to(tl.int64)
    inside = s < S
    shown = inside
    if HAS_LENGTHS:
        shown = shown & (s < tl.load(lengths + n // lengths_share))
    if HAS_LEFT:
        shown = shown & (s >= t + offset - left)
    if HAS_RIGHT:
        shown = shown & (s <= t + offset + right)
    if HAS_DENSE:
        some = dense + (n // dense_share) * dense_n + t * dense_t + s * dense_s
        shown = shown & (tl.load(some, mask=inside, other=0) != 0)
    parts = tl.zeros((BS, BD), dtype=tl.float32)
    keys = b + n * b_n + s[:, None].to(tl.int64) * b_s
    for start in range(0, D, BD):
        d = start + tl.arange(0, BD)
        x = tl.load(a + n * a_n + t * a_t + d * a_d, mask=d < D, other=0.0).to(tl.float32)
        w = tl.load(V + d, mask=d < D, other=0.0).to(tl.float32)
        y = tl.load(keys + d[None, :] * b_d, mask=shown[:, None] & (d < D)[None, :], other=0.0).to(tl.float32)
        parts += w[None, :] * from_sum(x[None, :], y, SASS)
    e = tl.sum(parts, axis=1) * (-2.0 * scale)
    tl.store(out + (n * T + t) * S + s, tl.where(shown, e, float("-inf")), mask=inside)


@triton.jit
def step_context_kernel(
    scores,  # (N, T, S)
    values,  # (N, S, Dv)
    weights,  # (N, T, S)
    context,  # (N, T, Dv)
    T,
    S,
    Dv,
    v_n,
    v_s,
    v_d,
    BS: tl.constexpr,
    BD: tl.constexpr,
    ROW: tl.constexpr,
):
    """Softmax of one row, and its mixture of some features of the values."""
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    t = tl.program_id(1)
    n = tl.program_id(2).to(tl.int64)
    row = (n * T + t) * S
    i = tl.arange(0, ROW)
    peaks = tl.full((ROW,), float("-inf"), dtype=tl.float32)
    for start in range(0, S, ROW):
        peaks = tl.maximum(peaks, tl.load(scores + row + start + i, mask=start + i < S, other=float("-inf")))
    peak = tl.max(peaks, axis=0)
    peak = tl.where(peak == float("-inf"), 0.0, peak)
    sums = tl.zeros((ROW,), dtype=tl.float32)
    for start in range(0, S, ROW):
        sums += tl.exp(tl.load(scores + row + start + i, mask=start + i < S, other=float("-inf")) - peak)
    total = tl.sum(sums, axis=0)
    factor = tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))
    if tl.program_id(0) == 0:
        for start in range(0, S, ROW):
            e = tl.load(scores + row + start + i, mask=start + i < S, other=float("-inf"))
            tl.store(weights + row + start + i, tl.exp(e - peak) * factor, mask=start + i < S)
    mixed = tl.zeros((BS, BD), dtype=tl.float32)
    for start in range(0, S, BS):
        s = start + tl.arange(0, BS)
        p = tl.exp(tl.load(scores + row + s, mask=s < S, other=float("-inf")) - peak) * factor
        place = values + n * v_n + s[:, None].to(tl.int64) * v_s + d[None, :] * v_d
        mixed += p[:, None] * tl.load(place, mask=(s < S)[:, None] & (d < Dv)[None, :], other=0.0).to(
            tl.float32
        )
    out = tl.sum(mixed, axis=0)
    tl.store(context + (n * T + t) * Dv + d, out.to(context.dtype.element_ty), mask=d < Dv)


@triton.jit
def step_values_kernel(
    grad,  # (N, T, Dv)
    values,  # (N, S, Dv)
    weights,  # (N, T, S)
    grad_weights,  # (N, T, S)
    grad_values,  # (N, S, Dv)
    T,
    S,
    Dv,
    g_n,
    g_t,
    g_d,
    v_n,
    v_s,
    v_d,
    BS: tl.constexpr,
    BD: tl.constexpr,
):
    """d loss / d weight, and the gradient of the values; both need the block of values that is read here."""
    s = tl.program_id(0) * BS + tl.arange(0, BS)
    n = tl.program_id(1).to(tl.int64)
    inside = s < S
    for t in range(0, T):
        sums = tl.zeros((BS, BD), dtype=tl.float32)
        for start in range(0, Dv, BD):
            d = start + tl.arange(0, BD)
            there = inside[:, None] & (d < Dv)[None, :]
            g = tl.load(grad + n * g_n + t * g_t + d * g_d, mask=d < Dv, other=0.0).to(tl.float32)
            place = values + n * v_n + s[:, None].to(tl.int64) * v_s + d[None, :] * v_d
            sums += g[None, :] * tl.load(place, mask=there, other=0.0).to(tl.float32)
        tl.store(grad_weights + (n * T + t) * S + s, tl.sum(sums, axis=1), mask=inside)
    for start in range(0, Dv, BD):
        d = start + tl.arange(0, BD)
        there = inside[:, None] & (d < Dv)[None, :]
        mixed = tl.zeros((BS, BD), dtype=tl.float32)
        for t in range(0, T):
            g = tl.load(grad + n * g_n + t * g_t + d * g_d, mask=d < Dv, other=0.0).to(tl.float32)
            p = tl.load(weights + (n * T + t) * S + s, mask=inside, other=0.0)
            mixed += p[:, None] * g[None, :]
        out = grad_values + (n * S + s[:, None]) * Dv + d[None, :]
        tl.store(out, mixed.to(grad_values.dtype.element_ty), mask=there)


@triton.jit
def step_gradient_kernel(
    a,  # (N, T, D)
    b,  # (N, S, D)
    V,
    weights,  # (N, T, S)
    grad_weights,  # (N, T, S)
    grad_a,  # (blocks, N, T, D)
    grad_b,  # (N, S, D)
    grad_v,  # (blocks, N, D)
    N,
    T,
    S,
    D,
    a_n,
    a_t,
    a_d,
    b_n,
    b_s,
    b_d,
    scale,
    BS: tl.constexpr,
    BD: tl.constexpr,
    ROW: tl.constexpr,
    SASS: tl.constexpr,
):
    """The gradients of few queries, one block of keys and of features; the caller adds up the blocks."""
    block = tl.program_id(0)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    n = tl.program_id(2).to(tl.int64)
    s = block * BS + tl.arange(0, BS)
    there = (s < S)[:, None] & (d < D)[None, :]
    y = tl.load(b + n * b_n + s[:, None].to(tl.int64) * b_s + d[None, :] * b_d, mask=there, other=0.0)
    y = y.to(tl.float32)
    w = tl.load(V + d, mask=d < D, other=0.0).to(tl.float32)
    of_b = tl.zeros((BS, BD), dtype=tl.float32)
    of_v = tl.zeros((BD,), dtype=tl.float32)
    i = tl.arange(0, ROW)
    for t in range(0, T):
        row = (n * T + t) * S
        means = tl.zeros((ROW,), dtype=tl.float32)
        for start in range(0, S, ROW):
            p = tl.load(weights + row + start + i, mask=start + i < S, other=0.0)
            means += p * tl.load(grad_weights + row + start + i, mask=start + i < S, other=0.0)
        mean = tl.sum(means, axis=0)
        p = tl.load(weights + row + s, mask=s < S, other=0.0)
        g = p * (tl.load(grad_weights + row + s, mask=s < S, other=0.0) - mean) * scale
        x = tl.load(a + n * a_n + t * a_t + d * a_d, mask=d < D, other=0.0).to(tl.float32)
        r = from_sum(x[None, :], y, SASS)
        first = g[:, None] * r
        slope = first - first * r
        of_b += slope
        of_v += tl.sum(first - 0.5 * g[:, None], axis=0)  # g · tanh / -2
        out = grad_a + ((block * N + n) * T + t) * D + d
        tl.store(out, 4.0 * w * tl.sum(slope, axis=0), mask=d < D)
    out = grad_b + (n * S + s[:, None]) * D + d[None, :]
    tl.store(out, (4.0 * w[None, :] * of_b).to(grad_b.dtype.element_ty), mask=there)
    tl.store(grad_v + (block * N + n) * D + d, -2.0 * of_v, mask=d < D)

"""The exponentials of queries and keys, in the memory layout that the scores read.

The four features that share a reciprocal are adjacent, (N, G, T, 4), so that one 16-byte load fetches them. G
is even, because groups are processed in pairs. The reach, the largest |a| in each span of positions and group
of features, is stored as well. If two reaches add up to more than a limit, a product could overflow: such a
tile forms the sum a + b first.

The weights are taken in units of the largest, w = v / (2⁻¹⁶ max |v|), and divide the query's exponentials:

    w / (1 + A·B) = 1 / (c + A'·B),   c = 1 / w,   A' = A / w

With this unit, the product of four factors c is at least 2⁻⁶⁴ and seldom above 1, so it rarely costs range
in float32; where it does, it counts as reach. A feature whose weight is negligible next to the largest, or
that is padding, gets A' = 0 and c = ±1: a constant, which softmax ignores. It is small next to a weight of
2¹⁶, and the signs alternate, so that such constants do not add up.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl

from regard.kernels.additive.additive_triton.arithmetic import doubled_exponential, exponential, load_one

SPAN = tl.constexpr(32)  # positions that share one reach, as in tuning.py
NOTHING = tl.constexpr(2.0**-20)  # negligible, in units: 2⁻³⁶ of the largest weight
UNIT = tl.constexpr(2.0**-16)  # as a share of the largest weight
BITS = tl.constexpr(4 * 2.8853900817779268)  # bits that a reach of one adds to a product of four factors


@triton.jit
def exponentials(X, n, t, f, T, D, stride_n, stride_t, HALF: tl.constexpr, SASS: tl.constexpr):
    """e^{2x}, for x clamped to ±40, and the largest |x| of each group; x is zero in the padding.

    t is (1, SPAN, 1), f (GROUPS, 1, 4). For half-precision inputs an error of two ulp is enough.
    """
    place = X + n * stride_n + t.to(tl.int64) * stride_t + f
    x = tl.load(place, mask=(t < T) & (f < D), other=0.0).to(tl.float32)
    far = tl.max(tl.max(tl.abs(x), axis=2), axis=1)
    x = tl.clamp(x, -40.0, 40.0, propagate_nan=tl.PropagateNan.ALL)  # beyond, the reach selects the sum
    if HALF:
        return doubled_exponential(x, SASS), far
    return exponential(2.0 * x), far


@triton.jit
def largest(v, D, BLOCK: tl.constexpr):
    """max |v|."""
    most = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, D, BLOCK):
        f = start + tl.arange(0, BLOCK)
        most = tl.maximum(most, tl.abs(tl.load(v + f, mask=f < D, other=0.0).to(tl.float32)))
    return tl.max(most, axis=0)


@triton.jit
def expand_kernel(
    a,  # (N, T, D)
    b,  # (N, S, D)
    v,  # (D,)
    folded,  # (N, G, T_pad, 4): A'
    A,  # the same without weights, if WHOLE: for the gradient
    B,  # (N, G, S_pad, 4)
    reach_a,  # (N, G, T_pad / SPAN)
    reach_b,
    weights,  # (G * 4,): v in float32
    inverse,  # (G * 4,): c
    more,  # (G + 1,): what Π c adds to the reach of each group, then the unit of the weights
    T, S, D, a_n, a_t, b_n, b_s, T_pad, S_pad, G, GROUPS: tl.constexpr, WHOLE: tl.constexpr,
    HALF: tl.constexpr, SASS: tl.constexpr,
):  # fmt: skip
    """One span of positions of one item, GROUPS groups of features.

    A program is one warp, so that nothing is synchronized. Each thread loads and stores the four features of
    a group at a time.
    """
    span = tl.program_id(0)
    n = tl.program_id(2).to(tl.int64)
    first = tl.program_id(1) * GROUPS
    group = first + tl.arange(0, GROUPS)
    g = group[:, None, None]
    own = tl.arange(0, SPAN)[None, :, None]
    feature = tl.arange(0, 4)[None, None, :]
    f = g * 4 + feature
    spans = T_pad // SPAN
    if span < spans:
        t = span * SPAN + own
        x, far = exponentials(a, n, t, f, T, D, a_n, a_t, HALF, SASS)
        v_f = tl.where(f < D, load_one(v + tl.minimum(f, D - 1), SASS), 0.0)
        peak = largest(v, D, 256)
        unit = tl.where(peak == 0.0, 1.0, peak * UNIT)
        w = v_f / unit
        nothing = tl.abs(w) < NOTHING
        c = tl.where(nothing, 1.0 - 2.0 * (f % 2), 1.0 / tl.where(nothing, 1.0, w))
        place = ((n * G + g) * T_pad + t) * 4 + feature
        if WHOLE:
            tl.store(A + place, x, mask=g < G)
        tl.store(folded + place, tl.where(nothing, 0.0, x * c), mask=g < G)
        tl.store(reach_a + (n * G + group) * spans + span, far, mask=group < G)
        if (span == 0) & (n == 0):
            tl.store(weights + f, v_f, mask=g < G)
            tl.store(inverse + f, c, mask=g < G)
            bits = tl.sum(tl.sum(tl.log2(tl.abs(c)), axis=2), axis=1)
            tl.store(more + group, bits / BITS, mask=group < G)
            if first == 0:
                tl.store(more + G, unit)
    else:
        span -= spans
        s = span * SPAN + own
        x, far = exponentials(b, n, s, f, S, D, b_n, b_s, HALF, SASS)
        tl.store(B + ((n * G + g) * S_pad + s) * 4 + feature, x, mask=g < G)
        tl.store(reach_b + (n * G + group) * (S_pad // SPAN) + span, far, mask=group < G)

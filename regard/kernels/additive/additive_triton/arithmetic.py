"""The arithmetic of additive attention on a GPU.

    x = A·B = e^{2a} e^{2b},   r = 1 / (1 + x),   tanh(a + b) = 1 - 2 r

A weighted reciprocal w r is 1 / (c + A'·B) with c = 1/w and A' = A/w, so the weight is free in the inner
loop. Four features share a reciprocal, with p = x₁x₂, q = x₃x₄:

    1/x₁ + 1/x₂ + 1/x₃ + 1/x₄ = ((x₁ + x₂) q + (x₃ + x₄) p) / (p q)
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl

LIMIT = tl.constexpr(10.3)  # e^{2·10.3} < 2^30, so four factors 1 + x stay below 2^124
LIMIT_OF_TWO = tl.constexpr(20.0)  # e^{2·20} < 2^58, so two stay below 2^120
LOG2E = tl.constexpr(1.4426950408889634)
TWO_LOG2E = tl.constexpr(2.8853900817779268)

LOAD_FOUR = tl.constexpr("ld.global.nc.v4.f32 {$0, $1, $2, $3}, [$4];")
LOAD_FLOAT32 = tl.constexpr("ld.global.nc.f32 $0, [$1];")
LOAD_FLOAT16 = tl.constexpr("{ .reg .b16 x; ld.global.nc.b16 x, [$1]; cvt.f32.f16 $0, x; }")
LOAD_BFLOAT16 = tl.constexpr(
    "{ .reg .b16 x, y; mov.b16 y, 0; ld.global.nc.b16 x, [$1]; mov.b32 $0, {y, x}; }"
)

# $0: sum out, $1: sum in, $2-$5: a, $6-$9: b, $10-$13: c
FOUR_QUOTIENTS = tl.constexpr(
    """{
    .reg .f32 x1, x2, x3, x4, front, back, left, right;
    fma.rn.f32 x1, $2, $6, $10;
    fma.rn.f32 x2, $3, $7, $11;
    fma.rn.f32 x3, $4, $8, $12;
    fma.rn.f32 x4, $5, $9, $13;
    mul.rn.f32 front, x1, x2;
    mul.rn.f32 back, x3, x4;
    add.rn.f32 left, x1, x2;
    add.rn.f32 right, x3, x4;
    mul.rn.f32 left, left, back;
    fma.rn.f32 left, right, front, left;
    mul.rn.f32 front, front, back;
    rcp.approx.ftz.f32 front, front;
    fma.rn.f32 $0, left, front, $1;
    }"""
)


@triton.jit
def reciprocal(x, SASS: tl.constexpr):
    """1 / x within one ulp."""
    if SASS:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 1.0 / x


@triton.jit
def power_of_two(x, SASS: tl.constexpr):
    """2^x within two ulp; subnormal results are flushed to zero."""
    if SASS:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.exp2(x)


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
def load_one(pointers, SASS: tl.constexpr):
    """One float32 number per position, kept in the layout of its pointers.

    For tl.load, Triton would choose a layout of its own and impose it on everything computed from the result.
    """
    if not SASS:
        return tl.load(pointers).to(tl.float32)
    kind: tl.constexpr = pointers.dtype.element_ty
    half: tl.constexpr = LOAD_FLOAT16 if kind == tl.float16 else LOAD_BFLOAT16
    code: tl.constexpr = LOAD_FLOAT32 if kind == tl.float32 else half
    return tl.inline_asm_elementwise(code, "=f,l", [pointers], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def add_quotients(total, a1, a2, a3, a4, b1, b2, b3, b4, c1, c2, c3, c4, SASS: tl.constexpr):
    """total + Σ 1 / (c + a b) over four features, with a single reciprocal."""
    if SASS:
        return tl.inline_asm_elementwise(
            FOUR_QUOTIENTS,
            "=f,f,f,f,f,f,f,f,f,f,f,f,f,f",
            [total, a1, a2, a3, a4, b1, b2, b3, b4, c1, c2, c3, c4],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    x1 = a1 * b1 + c1
    x2 = a2 * b2 + c2
    x3 = a3 * b3 + c3
    x4 = a4 * b4 + c4
    front = x1 * x2
    back = x3 * x4
    return total + ((x1 + x2) * back + (x3 + x4) * front) / (front * back)


@triton.jit
def sigmoid(x, SASS: tl.constexpr):
    """1 / (1 + e^{2x}); at e^{2·40} it is saturated and does not overflow yet."""
    x = tl.minimum(x, 40.0, propagate_nan=tl.PropagateNan.ALL)
    return reciprocal(1.0 + doubled_exponential(x, SASS), SASS)


@triton.jit
def doubled_exponential(x, SASS: tl.constexpr):
    """e^{2x} within two ulp, for |x| <= 40."""
    y = x * TWO_LOG2E
    power = power_of_two(y, SASS)
    lost = tl.fma(x, TWO_LOG2E, -y)  # the rounding error of y
    return tl.fma(power, lost * 0.6931471805599453, power)


@triton.jit
def halves(a, b, SASS: tl.constexpr):
    """½ tanh(a + b), and r of |a + b|: r (1 - r) is a quarter of the derivative.

    This is the smaller of r and 1 - r, so ½ - r has half the rounding error of the other.
    """
    x = a + b
    r = sigmoid(tl.abs(x), SASS)
    sign = x.to(tl.int32, bitcast=True) & -2147483648
    half = (0.5 - r).to(tl.int32, bitcast=True) | sign
    return half.to(tl.float32, bitcast=True), r


@triton.jit
def exponential(x):
    """e^x within one ulp, for |x| <= 80: outside the inner loop accuracy is cheap."""
    k = tl.floor(x * 1.4426950408889634 + 0.5)
    f = (x - k * 0.693359375) + k * 2.12194440e-4  # ln 2 in two parts, the first exact in a few bits
    p = f * (1.0 / 5040.0) + 1.0 / 720.0
    p = p * f + 1.0 / 120.0
    p = p * f + 1.0 / 24.0
    p = p * f + 1.0 / 6.0
    p = p * f + 0.5
    p = p * f * f + f + 1.0
    power = (k.to(tl.int32) + 127) << 23
    return tl.where(x == x, p * power.to(tl.float32, bitcast=True), x)


@triton.jit
def is_shown(
    t, s, n, T, S, lengths, dense, lengths_share, dense_share, dense_n, dense_t, dense_s, low, high,
    HAS_LENGTHS: tl.constexpr, HAS_DENSE: tl.constexpr, HAS_LOW: tl.constexpr, HAS_HIGH: tl.constexpr,
):  # fmt: skip
    """Whether query t of item n may see position s: t + low <= s <= t + high, lengths, the dense mask."""
    shown = (s < S) & (t < T)
    if HAS_LENGTHS:
        shown = shown & (s < tl.load(lengths + n // lengths_share))
    if HAS_LOW:
        shown = shown & (s >= t + low)
    if HAS_HIGH:
        shown = shown & (s <= t + high)
    if HAS_DENSE:
        some = dense + (n // dense_share) * dense_n + t.to(tl.int64) * dense_t + s * dense_s
        shown = shown & (tl.load(some, mask=shown, other=0) != 0)
    return shown


@triton.jit
def multiplied(x, y, sums, SASS: tl.constexpr):
    """sums + x @ y."""
    if not SASS:  # Triton's interpreter cannot multiply bfloat16
        x, y = x.to(tl.float32), y.to(tl.float32)
    return tl.dot(x, y, sums, input_precision="ieee")

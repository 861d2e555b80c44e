"""Dropout, sum and layer norm in Triton, and their gradients: rows of features, all in registers.

The formulas are those of residual.py. Axes: x, change, out and their gradients (rows, D), contiguous.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def _mixed(bits):
    """Wellons's lowbias32: each bit of the result depends on all 32 input bits."""
    bits = bits ^ (bits >> 16)
    bits = bits * tl.full((), 0x7FEB352D, tl.uint32)
    bits = bits ^ (bits >> 15)
    bits = bits * tl.full((), 0x846CA68B, tl.uint32)
    return bits ^ (bits >> 16)


@triton.jit
def _kept(seed, row, d, D, dropout):
    """The factor on each feature of this row: 0 with probability `dropout`, else 1 / (1 - dropout)."""
    first = tl.load(seed).to(tl.uint32, bitcast=True)
    second = tl.load(seed + 1).to(tl.uint32, bitcast=True)
    # beyond 2³² elements the pattern repeats
    bits = _mixed(_mixed((row * D + d).to(tl.uint32) + first) ^ second)
    chance = (bits >> 8).to(tl.float32) * (1.0 / 16777216.0)
    return tl.where(chance >= dropout, 1.0 / (1.0 - dropout), 0.0)


@triton.jit
def _sum(x, change, seed, row, D, dropout, DROPS: tl.constexpr, BLOCK: tl.constexpr):
    """z of one row, zero beyond its features, and the factor on the change."""
    d = tl.arange(0, BLOCK)
    z = tl.load(x + row * D + d, mask=d < D, other=0.0).to(tl.float32)
    c = tl.load(change + row * D + d, mask=d < D, other=0.0).to(tl.float32)
    kept = tl.full((BLOCK,), 1.0, tl.float32)
    if DROPS:
        kept = _kept(seed, row, d, D, dropout)
    return z + kept * c, kept


@triton.jit
def _normalized(z, d, D, eps):
    """ẑ of one row, and 1 / σ."""
    mean = tl.sum(z, 0) / D
    apart = tl.where(d < D, z - mean, 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(apart * apart, 0) / D + eps)
    return apart * inverse, inverse


@triton.jit(do_not_specialize=["dropout", "eps"])
def forward_kernel(
    x, change, weight, bias, seed, out, D, dropout, eps, DROPS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out[row]; one program per row."""
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BLOCK)
    z, _ = _sum(x, change, seed, row, D, dropout, DROPS, BLOCK)
    normal, _ = _normalized(z, d, D, eps)
    g = tl.load(weight + d, mask=d < D, other=0.0).to(tl.float32)
    b = tl.load(bias + d, mask=d < D, other=0.0).to(tl.float32)
    tl.store(out + row * D + d, (normal * g + b).to(out.dtype.element_ty), mask=d < D)


@triton.jit(do_not_specialize=["dropout", "eps"])
def gradient_kernel(
    x, change, weight, seed, grad, of_x, of_change, sums, rows, D, each,
    dropout, eps, DROPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """of_x and of_change of `each` rows, and the sums over these rows for the gradients of g and b."""
    program = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BLOCK)
    g = tl.load(weight + d, mask=d < D, other=0.0).to(tl.float32)
    of_g = tl.zeros((BLOCK,), tl.float32)
    of_b = tl.zeros((BLOCK,), tl.float32)
    for row in range(program * each, tl.minimum(program * each + each, rows)):
        z, kept = _sum(x, change, seed, row, D, dropout, DROPS, BLOCK)
        normal, inverse = _normalized(z, d, D, eps)
        dy = tl.load(grad + row * D + d, mask=d < D, other=0.0).to(tl.float32)
        of_g += dy * normal
        of_b += dy
        h = g * dy
        slope = (h - tl.sum(h, 0) / D - normal * (tl.sum(h * normal, 0) / D)) * inverse
        tl.store(of_x + row * D + d, slope.to(of_x.dtype.element_ty), mask=d < D)
        tl.store(of_change + row * D + d, (kept * slope).to(of_change.dtype.element_ty), mask=d < D)
    tl.store(sums + program * D + d, of_g, mask=d < D)
    tl.store(sums + (tl.num_programs(0) + program) * D + d, of_b, mask=d < D)

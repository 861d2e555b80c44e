"""Sparsemax of rows and its gradient in Triton: one program per row, which stays in registers.

    τ solves Σ max(z - τ, 0) = 1: Newton's steps from max - 1, until the support no longer shrinks

The steps approach from the left and end at the exact solution, as in sparsemax_cpu.cpp; no row is sorted. The
sums are in float32, so a last step corrects their rounding.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["scale"])
def forward_kernel(scores, weights, S, scale, BLOCK: tl.constexpr):
    """weights[r] = sparsemax(scale · scores[r]) for contiguous rows of S numbers; zeros for a row of -inf."""
    row = tl.program_id(0).to(tl.int64) * S
    s = tl.arange(0, BLOCK)
    z = tl.load(scores + row + s, mask=s < S, other=float("-inf"))
    z = tl.where(z == float("-inf"), z, z * scale)  # hidden stays hidden, whatever the scale
    most = tl.max(z, 0)
    z = z - tl.where(most == float("-inf"), 0.0, most)
    tau, before, count = -1.0, BLOCK + 2.0, BLOCK + 1.0  # more than a row has: the first step may keep all
    while count < before:
        inside = z > tau
        before = count
        count = tl.sum(tl.where(inside, 1.0, 0.0), 0)
        tau = (tl.sum(tl.where(inside, z, 0.0), 0) - 1.0) / tl.maximum(count, 1.0)
    # a last step on what is left above the threshold: small numbers, whose sum has a small rounding error
    left = tl.sum(tl.where(z > tau, z - tau, 0.0), 0)
    p = z - (tau + (left - 1.0) / tl.maximum(count, 1.0))
    p = tl.where(p <= 0.0, 0.0, p).to(weights.dtype.element_ty)
    tl.store(weights + row + s, p, mask=s < S)


@triton.jit(do_not_specialize=["scale"])
def gradient_kernel(grad, weights, out, S, scale, BLOCK: tl.constexpr):
    """out[r] = scale · (grad[r] - its mean over the support of weights[r]) inside the support; 0 outside."""
    row = tl.program_id(0).to(tl.int64) * S
    s = tl.arange(0, BLOCK)
    p = tl.load(weights + row + s, mask=s < S, other=0.0)
    g = tl.load(grad + row + s, mask=s < S, other=0.0)
    inside = p != 0.0
    count = tl.sum(tl.where(inside, 1.0, 0.0), 0)
    mean = tl.sum(tl.where(inside, g, 0.0), 0) / tl.maximum(count, 1.0)
    slope = tl.where(inside, (g - mean) * scale, 0.0).to(out.dtype.element_ty)
    tl.store(out + row + s, slope, mask=s < S)

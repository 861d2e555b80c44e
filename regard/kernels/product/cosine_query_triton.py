"""β q / ‖q‖ and its gradient in Triton: tiles of rows, all in registers. Formulas are in cosine_query.py.

Axes: query, out and their gradients (rows, D), contiguous; tiles (R, BLOCK); a number for each row (R, 1).
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def _parts(
    query, weight, bias, row, rows, strength, D: tl.constexpr, LEARNT: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """q, u, 1 / ‖q‖, β, dβ / dz and w of some rows. For the zero vector u is zero and ‖q‖ counts as 1."""
    d = tl.arange(0, BLOCK)[None, :]
    q = tl.load(query + row * D + d, mask=(row < rows) & (d < D), other=0.0).to(tl.float32)
    # divide by the largest component first, so that the squares neither overflow nor vanish
    largest = tl.max(tl.abs(q), axis=1, keep_dims=True)
    largest = tl.where(largest > 0.0, largest, 1.0)
    scaled = q / largest
    norm = tl.sqrt(tl.maximum(tl.sum(scaled * scaled, axis=1, keep_dims=True), 1.0))
    beta = tl.zeros_like(norm) + strength
    slope = tl.zeros_like(norm)
    w = tl.zeros((1, BLOCK), dtype=tl.float32)
    if LEARNT:
        w = tl.load(weight + d, mask=d < D, other=0.0).to(tl.float32)
        z = tl.sum(q * w, axis=1, keep_dims=True) + tl.load(bias).to(tl.float32)
        y = tl.exp(-tl.abs(z))
        series = y * (1.0 - y * (0.5 - y * (0.33333333 - y * 0.25)))  # log(1 + y) for small y
        beta = tl.maximum(z, 0.0) + tl.where(y < 0.01, series, tl.log(1.0 + y))
        slope = tl.where(z >= 0.0, 1.0, y) / (1.0 + y)
    return q, scaled / norm, 1.0 / (largest * norm), beta, slope, w


@triton.jit(do_not_specialize=["rows", "strength"])
def forward_kernel(
    query, weight, bias, out, rows, strength, D: tl.constexpr, LEARNT: tl.constexpr, R: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Some rows of out."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
    _, u, _, beta, _, _ = _parts(query, weight, bias, row, rows, strength, D, LEARNT, BLOCK)
    d = tl.arange(0, BLOCK)[None, :]
    tl.store(out + row * D + d, (beta * u).to(out.dtype.element_ty), mask=(row < rows) & (d < D))


@triton.jit(do_not_specialize=["rows", "turns", "strength"])
def gradient_kernel(
    query, weight, bias, grad, of_query, sums, rows, turns, strength, D: tl.constexpr, LEARNT: tl.constexpr,
    R: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Some rows of the query's gradient, tile by tile, and their sums for w and b."""
    d = tl.arange(0, BLOCK)[None, :]
    of_weight = tl.zeros((R, BLOCK), dtype=tl.float32)
    of_bias = tl.zeros((R, 1), dtype=tl.float32)
    for turn in range(0, turns):
        row = (tl.program_id(0).to(tl.int64) * turns + turn) * R + tl.arange(0, R)[:, None]
        there = (row < rows) & (d < D)
        q, u, inverse, beta, slope, w = _parts(query, weight, bias, row, rows, strength, D, LEARNT, BLOCK)
        g = tl.load(grad + row * D + d, mask=there, other=0.0).to(tl.float32)
        along = tl.sum(g * u, axis=1, keep_dims=True)
        of_z = along * slope
        found = (g - u * along) * (beta * inverse) + of_z * w
        tl.store(of_query + row * D + d, found.to(of_query.dtype.element_ty), mask=there)
        of_weight += of_z * q
        of_bias += of_z
    if LEARNT:
        own = sums + tl.program_id(0) * (D + 1)
        d = tl.arange(0, BLOCK)
        tl.store(own + d, tl.sum(of_weight, axis=0), mask=d < D)
        tl.store(own + D, tl.sum(of_bias))

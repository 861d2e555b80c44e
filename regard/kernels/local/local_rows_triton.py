"""Attention with a separate band for each row, in Triton: local-p, whose centres are predicted.

    forward     forward_kernel    queries  ->  context
    backward    row_kernel        queries  ->  grad_q, grad_p, slopes of the scores, parts of grad_v
                key_kernel        keys     ->  grad_k, grad_values

A row sees a few consecutive keys, from `first` on, and reads them in place. A key must find the rows that see
it: rows are sorted by their first positions, so that those of one key are consecutive too. There are no
atomic additions, and sums have a fixed order. A tile has three axes (queries, keys, features). The backward
pass recomputes the weights: nothing is saved.

Axes: q, out, grad (N, T, ·), k, values (N, S, ·), contiguous; p (N, T). The score is scale · q · k, or scale
times v · tanh(q + k). With a predicted centre exp(-2 (s - p)² / half²) multiplies the weights.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl

from regard.kernels.additive.additive_triton.arithmetic import halves
from regard.kernels.local.local_triton import seen

NEVER = tl.constexpr(float("-inf"))
NUMBERS = ["N", "T", "S", "share", "offset", "left", "right", "half", "scale"]


@triton.jit
def band_of(
    p, n, t, T, S, lengths, share, offset, left, right, half, LENGTHS: tl.constexpr, LEFT: tl.constexpr,
    RIGHT: tl.constexpr, LOCAL: tl.constexpr, CENTRED: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    """The first position of some rows, the positions from there on, their visibility, and their distance."""
    around: tl.constexpr = LOCAL and not CENTRED
    first, last = seen(t, n, T, S, lengths, share, offset, left, right, half, LENGTHS, LEFT, RIGHT, around)
    centre = tl.zeros_like(first).to(tl.float32)
    if CENTRED:
        centre = tl.load(p + n * T + t, mask=t < T, other=0.0)
        first = tl.maximum(first, tl.floor(centre - half).to(tl.int32))
    s = first[:, None] + tl.arange(0, BW)[None, :]
    distance = s.to(tl.float32) - centre[:, None]
    shown = s <= last[:, None]
    if CENTRED:
        shown = shown & (tl.abs(distance) <= half)
    return first, s, shown, distance


@triton.jit
def queries_of(x, n, t, d, T, WIDTH: tl.constexpr):
    """Some features (1, 1, BD) of some rows of x (N, T, WIDTH): (BT, 1, BD)."""
    row = t[:, None, None]
    place = x + (n * T + row) * WIDTH + d
    return tl.load(place, mask=(row < T) & (d < WIDTH), other=0.0).to(tl.float32)


@triton.jit
def keys_of(x, n, s, shown, d, S, WIDTH: tl.constexpr):
    """The same for the visible positions s (BT, BW) of x (N, S, WIDTH): (BT, BW, BD)."""
    place = x + (n * S + s[:, :, None]) * WIDTH + d
    return tl.load(place, mask=shown[:, :, None] & (d < WIDTH), other=0.0).to(tl.float32)


@triton.jit
def softmaxed(
    q, k, v, n, t, s, shown, T, S, scale, D: tl.constexpr, ADDITIVE: tl.constexpr, BT: tl.constexpr,
    BW: tl.constexpr, BD: tl.constexpr, SASS: tl.constexpr,
):  # fmt: skip
    """The softmax of the scores (BT, BW); zero in a row that sees nothing."""
    sums = tl.zeros((BT, BW, BD), dtype=tl.float32)
    for start in range(0, D, BD):
        d = (start + tl.arange(0, BD))[None, None, :]
        x, y = queries_of(q, n, t, d, T, D), keys_of(k, n, s, shown, d, S, D)
        if ADDITIVE:
            half, _ = halves(x, y, SASS)
            sums += tl.load(v + d, mask=d < D, other=0.0).to(tl.float32) * half
        else:
            sums += x * y
    e = tl.sum(sums, axis=2) * scale
    e = tl.where(shown, 2.0 * e if ADDITIVE else e, NEVER)
    peak = tl.max(e, axis=1)
    power = tl.exp(e - tl.where(peak == NEVER, 0.0, peak)[:, None])
    total = tl.sum(power, axis=1)
    return power * tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))[:, None]


@triton.jit
def weighed(
    q, k, v, p, lengths, n, t, T, S, share, offset, left, right, half, scale, D: tl.constexpr,
    LENGTHS: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, LOCAL: tl.constexpr,
    ADDITIVE: tl.constexpr, CENTRED: tl.constexpr, BT: tl.constexpr, BW: tl.constexpr, BD: tl.constexpr,
    SASS: tl.constexpr,
):  # fmt: skip
    """The bands of some rows, their softmax, and the factor on it: NaN for a NaN centre."""
    first, s, shown, distance = band_of(
        *(p, n, t, T, S, lengths, share, offset, left, right, half),
        *(LENGTHS, LEFT, RIGHT, LOCAL, CENTRED, BW),
    )
    soft = softmaxed(q, k, v, n, t, s, shown, T, S, scale, D, ADDITIVE, BT, BW, BD, SASS)
    factor = tl.zeros_like(distance) + 1.0
    if CENTRED:
        factor = tl.exp(distance * distance * (-2.0 / (half * half)))
    return first, s, shown, distance, soft, factor


@triton.jit(do_not_specialize=NUMBERS)
def forward_kernel(
    q, k, values, v, p, lengths, out, N, T, S, share, offset, left, right, half, scale, D: tl.constexpr,
    DV: tl.constexpr, LENGTHS: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, LOCAL: tl.constexpr,
    ADDITIVE: tl.constexpr, CENTRED: tl.constexpr, BT: tl.constexpr, BW: tl.constexpr, BD: tl.constexpr,
    SASS: tl.constexpr,
):  # fmt: skip
    """Some rows of one item's context."""
    n = tl.program_id(1).to(tl.int64)
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    _, s, shown, _, soft, factor = weighed(
        *(q, k, v, p, lengths, n, t, T, S, share, offset, left, right, half, scale, D),
        *(LENGTHS, LEFT, RIGHT, LOCAL, ADDITIVE, CENTRED, BT, BW, BD, SASS),
    )
    weights = soft * factor
    for start in range(0, DV, BD):
        d = start + tl.arange(0, BD)[None, :]
        value = keys_of(values, n, s, shown, d[:, None, :], S, DV)
        mixed = tl.sum(weights[:, :, None] * value, axis=1)
        place = out + (n * T + t[:, None]) * DV + d
        tl.store(place, mixed.to(out.dtype.element_ty), mask=(t < T)[:, None] & (d < DV))


@triton.jit(do_not_specialize=NUMBERS)
def row_kernel(
    q, k, values, v, p, lengths, grad,
    of_q,  # (N, T, D)
    of_p,  # (N, T), if CENTRED
    numbers,  # (N, T, 2, BW): d loss / d score times the scale; and the weights including the factor
    parts,  # (N, programs of an item, D) of grad_v, if ADDITIVE
    starts,  # (N, T): the first positions
    N, T, S, share, offset, left, right, half, scale, D: tl.constexpr, DV: tl.constexpr,
    LENGTHS: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, LOCAL: tl.constexpr,
    ADDITIVE: tl.constexpr, CENTRED: tl.constexpr, BT: tl.constexpr, BW: tl.constexpr, BD: tl.constexpr,
    SASS: tl.constexpr,
):  # fmt: skip
    """Some rows of one item: their gradients, and what the keys' gradients need."""
    n = tl.program_id(1).to(tl.int64)
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    first, s, shown, distance, soft, factor = weighed(
        *(q, k, v, p, lengths, n, t, T, S, share, offset, left, right, half, scale, D),
        *(LENGTHS, LEFT, RIGHT, LOCAL, ADDITIVE, CENTRED, BT, BW, BD, SASS),
    )
    sums = tl.zeros((BT, BW, BD), dtype=tl.float32)
    for start in range(0, DV, BD):
        d = (start + tl.arange(0, BD))[None, None, :]
        sums += queries_of(grad, n, t, d, T, DV) * keys_of(values, n, s, shown, d, S, DV)
    slope = tl.sum(sums, axis=2) * factor
    if CENTRED:
        of_centre = tl.sum(slope * soft * distance, axis=1) * (4.0 / (half * half))
        tl.store(of_p + n * T + t, of_centre, mask=t < T)
    g = soft * (slope - tl.sum(slope * soft, axis=1)[:, None]) * scale
    cell = numbers + (n * T + t[:, None]) * (2 * BW) + tl.arange(0, BW)[None, :]
    tl.store(cell, g, mask=(t < T)[:, None])
    tl.store(cell + BW, soft * factor, mask=(t < T)[:, None])
    tl.store(starts + n * T + t, first, mask=t < T)
    for start in range(0, D, BD):
        d = start + tl.arange(0, BD)[None, :]
        y = keys_of(k, n, s, shown, d[:, None, :], S, D)
        if ADDITIVE:
            h, r = halves(queries_of(q, n, t, d[:, None, :], T, D), y, SASS)
            w = tl.load(v + d, mask=d < D, other=0.0).to(tl.float32)
            found = 4.0 * w * tl.sum(g[:, :, None] * (r - r * r), axis=1)
            of_v = tl.sum(tl.sum(g[:, :, None] * h, axis=1), axis=0)[None, :]
            part = (n * tl.num_programs(0) + tl.program_id(0)) * D
            tl.store(parts + part + d, 2.0 * of_v, mask=d < D)
        else:
            found = tl.sum(g[:, :, None] * y, axis=1)
        place = of_q + (n * T + t[:, None]) * D + d
        tl.store(place, found.to(of_q.dtype.element_ty), mask=(t < T)[:, None] & (d < D))


@triton.jit
def met(starts, order, numbers, n, s, i, last, T, BW: tl.constexpr):
    """Rows i of the sorted ones: their indices, and their numbers (N, T, 2, BW) for position s."""
    t = tl.load(order + n * T + i, mask=i < last, other=0)
    w = s - tl.load(starts + n * T + i, mask=i < last, other=0)
    return t, tl.load(numbers + (n * T + t) * (2 * BW) + w, mask=i < last, other=0.0)


@triton.jit(do_not_specialize=["T", "S", "reach"])
def key_kernel(
    q, k, v, grad, numbers, starts,  # (N, T): the first positions, sorted
    order,  # (N, T): the rows in that order
    edges,  # (N, S + reach): how many first positions are below 1 - reach, 2 - reach, …
    of_k, of_values, T, S, reach, D: tl.constexpr, DV: tl.constexpr, ADDITIVE: tl.constexpr,
    BT: tl.constexpr, BW: tl.constexpr, BD: tl.constexpr, SASS: tl.constexpr,
):  # fmt: skip
    """Some features of the gradient of one key, or of its value, over the rows whose bands may contain it."""
    s = tl.program_id(0)
    part = tl.program_id(1)
    n = tl.program_id(2).to(tl.int64)
    edge = edges + n * (S + reach) + s
    begin, end = tl.load(edge).to(tl.int32), tl.load(edge + reach).to(tl.int32)
    sums = tl.zeros((BT, BD), dtype=tl.float32)
    if part < tl.cdiv(D, BD):
        d = part * BD + tl.arange(0, BD)[None, :]
        own = (n * S + s) * D + d
        y = tl.load(k + own, mask=d < D, other=0.0).to(tl.float32)
        for start in range(begin, end, BT):
            i = start + tl.arange(0, BT)
            t, g = met(starts, order, numbers, n, s, i, end, T, BW)
            place = q + (n * T + t[:, None]) * D + d
            x = tl.load(place, mask=(i < end)[:, None] & (d < D), other=0.0).to(tl.float32)
            if ADDITIVE:
                _, r = halves(x, y, SASS)
                sums += g[:, None] * (r - r * r)
            else:
                sums += g[:, None] * x
        total = tl.sum(sums, axis=0)[None, :]
        if ADDITIVE:
            total *= 4.0 * tl.load(v + d, mask=d < D, other=0.0).to(tl.float32)
        tl.store(of_k + own, total.to(of_k.dtype.element_ty), mask=d < D)
    else:
        d = (part - tl.cdiv(D, BD)) * BD + tl.arange(0, BD)[None, :]
        for start in range(begin, end, BT):
            i = start + tl.arange(0, BT)
            t, weight = met(starts, order, numbers + BW, n, s, i, end, T, BW)
            place = grad + (n * T + t[:, None]) * DV + d
            x = tl.load(place, mask=(i < end)[:, None] & (d < DV), other=0.0).to(tl.float32)
            sums += weight[:, None] * x
        own = (n * S + s) * DV + d
        total = tl.sum(sums, axis=0)[None, :]
        tl.store(of_values + own, total.to(of_values.dtype.element_ty), mask=d < DV)

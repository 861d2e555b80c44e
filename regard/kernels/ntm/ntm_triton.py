"""A Neural Turing Machine's whole run in Triton, forward and backward: one program per sequence.

Memory and weights stay in registers from step to step; everything else is written to global memory, where
the same program reads it again in another layout (after a barrier), and later the backward kernel. Nothing is
both read and overwritten between two barriers, because threads that hold copies of a value do not run in
lockstep. Heads are padded to HP rows, columns of the memory to MP.

    buffer    shape               index 0 of the time axis
    heard     (B, T + 1, R M + n) reads and h before the first step: an LSTM's input besides its own
    inner     (B, T + 1, n)       c of an LSTM
    cells     (B, T + 1, N, M)
    weights   (B, T + 1, H, N)
    gates     (B, T, G)           no such index: pre-activations of an LSTM's gates, or of h
    spoken    (B, T, P)           no such index: laid out as in attention/memory/heads.py
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl

TINY = tl.constexpr(1.1754943508222875e-38)  # the smallest normal float32


@triton.jit
def _tanh(x):
    e = tl.exp(-2.0 * tl.abs(x))
    y = (1.0 - e) / (1.0 + e)
    return tl.where(x < 0.0, -y, y)


@triton.jit
def _softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _softmax(x):
    e = tl.exp(x - tl.max(x, 1)[:, None])
    return e / tl.sum(e, 1)[:, None]


@triton.jit
def _units(x):
    """Unit rows and their divisors; a row of zeros is divided by one."""
    largest = tl.max(tl.abs(x), 1)
    largest = tl.where(largest > 0.0, largest, 1.0)
    scaled = x / largest[:, None]
    length = tl.sqrt(tl.sum(scaled * scaled, 1))
    length = tl.where(length > 0.0, length, 1.0)
    return scaled / length[:, None], largest * length


@triton.jit
def _product(matrix, rows, stride, vector, columns, i, BK: tl.constexpr):
    """Σ_k matrix[i, k] vector[k] for the rows i."""
    total = tl.zeros([i.shape[0], BK], tl.float32)
    for start in range(0, columns, BK):
        k = start + tl.arange(0, BK)
        inside = (i[:, None] < rows) & (k[None, :] < columns)
        a = tl.load(matrix + i[:, None] * stride + k[None, :], mask=inside, other=0.0)
        x = tl.load(vector + k, mask=k < columns, other=0.0)
        total += a * x[None, :]
    return tl.sum(total, 1)


@triton.jit
def _transposed_product(matrix, rows, stride, vector, columns, k, BI: tl.constexpr):
    """Σ_i matrix[i, k] vector[i] for the columns k."""
    total = tl.zeros([BI, k.shape[0]], tl.float32)
    for start in range(0, rows, BI):
        i = start + tl.arange(0, BI)
        inside = (i[:, None] < rows) & (k[None, :] < columns)
        a = tl.load(matrix + i[:, None] * stride + k[None, :], mask=inside, other=0.0)
        x = tl.load(vector + i, mask=i < rows, other=0.0)
        total += a * x[:, None]
    return tl.sum(total, 0)


@triton.jit
def _address(
    spoken, M_, w_, N: tl.constexpr, M: tl.constexpr, R: tl.constexpr, W: tl.constexpr, REACH: tl.constexpr,
    HP: tl.constexpr, MP: tl.constexpr, DP: tl.constexpr,
):  # fmt: skip
    """Equations 5 to 9 for all heads, with all intermediate values."""
    H: tl.constexpr = R + W
    D: tl.constexpr = 2 * REACH + 1
    UNIT: tl.constexpr = (H + W) * M
    POSITIVE: tl.constexpr = UNIT + H + W * M
    MOVES: tl.constexpr = POSITIVE + 2 * H
    h, m, n, d = tl.arange(0, HP), tl.arange(0, MP), tl.arange(0, N), tl.arange(0, DP)
    here = h < H
    both = here[:, None] & (m[None, :] < M)
    key = _tanh(tl.load(spoken + h[:, None] * M + m[None, :], mask=both, other=0.0))
    gate = tl.sigmoid(tl.load(spoken + UNIT + h, mask=here, other=0.0))
    strength_ = tl.load(spoken + POSITIVE + h, mask=here, other=0.0)
    gamma_ = tl.load(spoken + POSITIVE + H + h, mask=here, other=0.0)
    moves = tl.load(
        spoken + MOVES + h[:, None] * D + d[None, :],
        mask=here[:, None] & (d[None, :] < D),
        other=tl.where(d[None, :] < D, 0.0, float("-inf")),
    )
    shifts = _softmax(moves)
    unit_key, key_length = _units(key)
    unit_cells, cell_length = _units(M_)
    cosine = tl.dot(unit_key, tl.trans(unit_cells), input_precision="ieee")  # (HP, N)
    strength, gamma = _softplus(strength_), 1.0 + _softplus(gamma_)
    content = _softmax(strength[:, None] * cosine)
    gated = w_ + gate[:, None] * (content - w_)
    moved = tl.zeros([HP, N], tl.float32)
    for j in tl.static_range(D):
        share = tl.sum(tl.where(d[None, :] == j, shifts, 0.0), 1)
        origin = (n + (N * REACH + REACH - j)) % N  # i - (j - reach), wrapped around
        moved += share[:, None] * tl.gather(gated, tl.broadcast_to(origin[None, :], HP, N), 1)
    logs = tl.log(tl.maximum(moved, TINY))
    w = tl.where(here[:, None], _softmax(gamma[:, None] * logs), 0.0)
    return (
        w, logs, moved, gated, content, cosine, unit_key, key_length, unit_cells, cell_length, key, gate,
        strength_, strength, gamma_, gamma, shifts,
    )  # fmt: skip


@triton.jit(do_not_specialize=["T"])
def forward_kernel(
    projected, V, S, bias, heard, inner, cells, weights, gates, spoken, T,
    n: tl.constexpr, P: tl.constexpr, N: tl.constexpr, M: tl.constexpr, R: tl.constexpr, W: tl.constexpr,
    REACH: tl.constexpr, LSTM: tl.constexpr, HP: tl.constexpr, MP: tl.constexpr, DP: tl.constexpr,
    BI: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Run every step of one sequence."""
    H: tl.constexpr = R + W
    G: tl.constexpr = 4 * n if LSTM else n
    K: tl.constexpr = R * M + n if LSTM else R * M
    ERASE: tl.constexpr = (H + W) * M + H
    b = tl.program_id(0).to(tl.int64)
    projected += b * T * G
    heard += b * (T + 1) * (R * M + n)
    inner += b * (T + 1) * n
    cells += b * (T + 1) * N * M
    weights += b * (T + 1) * H * N
    gates += b * T * G
    spoken += b * T * P
    h, m, rows = tl.arange(0, HP), tl.arange(0, MP), tl.arange(0, N)
    writer = (h[:, None] >= R) & (h[:, None] < H) & (m[None, :] < M)
    place = rows[:, None] * M + m[None, :]
    cell = m[None, :] < M
    at = h[:, None] * N + rows[None, :]
    M_ = tl.load(cells + place, mask=cell, other=0.0)  # (N, MP)
    w_ = tl.load(weights + at, mask=h[:, None] < H, other=0.0)  # (HP, N)
    for _ in range(T):
        hidden = heard + (R * M + n) + R * M
        for start in range(0, G, BI):
            i = start + tl.arange(0, BI)
            a = tl.load(projected + i, mask=i < G, other=0.0) + _product(V, G, K, heard, K, i, BK)
            tl.store(gates + i, a, mask=i < G)
        tl.debug_barrier()
        for start in range(0, n, BK):
            i = start + tl.arange(0, BK)
            inside = i < n
            a = tl.load(gates + i, mask=inside, other=0.0)
            if LSTM:
                f = tl.sigmoid(tl.load(gates + n + i, mask=inside, other=0.0))
                g = _tanh(tl.load(gates + 2 * n + i, mask=inside, other=0.0))
                o = tl.sigmoid(tl.load(gates + 3 * n + i, mask=inside, other=0.0))
                c = f * tl.load(inner + i, mask=inside, other=0.0) + tl.sigmoid(a) * g
                tl.store(inner + n + i, c, mask=inside)
                tl.store(hidden + i, o * _tanh(c), mask=inside)
            else:
                tl.store(hidden + i, _tanh(a), mask=inside)
        tl.debug_barrier()
        for start in range(0, P, BI):
            p = start + tl.arange(0, BI)
            said = tl.load(bias + p, mask=p < P, other=0.0) + _product(S, P, n, hidden, n, p, BK)
            tl.store(spoken + p, said, mask=p < P)
        tl.debug_barrier()
        w_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _ = _address(
            spoken, M_, w_, N, M, R, W, REACH, HP, MP, DP
        )
        kept = tl.full([N, MP], 1.0, tl.float32)
        for writes in range(W):
            erase = tl.sigmoid(tl.load(spoken + ERASE + writes * M + m, mask=m < M, other=0.0))
            one = tl.sum(tl.where(h[:, None] == R + writes, w_, 0.0), 0)
            kept *= 1.0 - one[:, None] * erase[None, :]
        add = _tanh(tl.load(spoken + (H + h[:, None] - R) * M + m[None, :], mask=writer, other=0.0))
        M_ = M_ * kept + tl.dot(tl.trans(w_), add, input_precision="ieee")
        M_ = tl.where(cell, M_, 0.0)
        found = tl.dot(w_, M_, input_precision="ieee")  # (HP, MP)
        projected += G
        gates += G
        spoken += P
        heard += R * M + n
        inner += n
        cells += N * M
        weights += H * N
        tl.store(cells + place, M_, mask=cell)
        tl.store(weights + at, w_, mask=h[:, None] < H)
        tl.store(heard + h[:, None] * M + m[None, :], found, mask=(h[:, None] < R) & cell)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["T"])
def backward_kernel(
    grad_heard, V, S, heard, inner, cells, weights, gates, spoken,
    grad_projected, grad_spoken, carried, grad_inner, grad_cells, grad_weights, T,
    n: tl.constexpr, P: tl.constexpr, N: tl.constexpr, M: tl.constexpr, R: tl.constexpr, W: tl.constexpr,
    REACH: tl.constexpr, LSTM: tl.constexpr, HP: tl.constexpr, MP: tl.constexpr, DP: tl.constexpr,
    BI: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The same steps from the last to the first.

    `carried` (B, R M + n) passes the gradients of reads and h to the step before; at the end it holds those
    of the first reads and the first h. `grad_inner` (B, 2, n) does the same with a double buffer, whose
    result is at index T modulo 2. `grad_cells` and `grad_weights` are written at the end.
    """
    H: tl.constexpr = R + W
    D: tl.constexpr = 2 * REACH + 1
    G: tl.constexpr = 4 * n if LSTM else n
    K: tl.constexpr = R * M + n if LSTM else R * M
    UNIT: tl.constexpr = (H + W) * M
    ERASE: tl.constexpr = UNIT + H
    POSITIVE: tl.constexpr = UNIT + H + W * M
    MOVES: tl.constexpr = POSITIVE + 2 * H
    b = tl.program_id(0).to(tl.int64)
    grad_heard += b * T * (R * M + n)
    heard += b * (T + 1) * (R * M + n)
    inner += b * (T + 1) * n
    cells += b * (T + 1) * N * M
    weights += b * (T + 1) * H * N
    gates += b * T * G
    spoken += b * T * P
    grad_projected += b * T * G
    grad_spoken += b * T * P
    carried += b * (R * M + n)
    grad_inner += b * 2 * n
    h, m, rows, d = tl.arange(0, HP), tl.arange(0, MP), tl.arange(0, N), tl.arange(0, DP)
    here = h < H
    writer = (h[:, None] >= R) & (h[:, None] < H) & (m[None, :] < M)
    reader = (h[:, None] < R) & (m[None, :] < M)
    place = rows[:, None] * M + m[None, :]
    cell = m[None, :] < M
    at = h[:, None] * N + rows[None, :]
    dM = tl.zeros([N, MP], tl.float32)
    dw = tl.zeros([HP, N], tl.float32)
    for step in range(T):
        t = T - 1 - step
        said, asked = spoken + t * P, grad_spoken + t * P
        wanted = grad_heard + t * (R * M + n)
        M_ = tl.load(cells + t * N * M + place, mask=cell, other=0.0)
        w_ = tl.load(weights + t * H * N + at, mask=here[:, None], other=0.0)
        (
            w, logs, moved, gated, content, cosine, unit_key, key_length, unit_cells, cell_length, key, gate,
            strength_, strength, gamma_, gamma, shifts,
        ) = _address(said, M_, w_, N, M, R, W, REACH, HP, MP, DP)  # fmt: skip
        # equations 2 and 4
        index = h[:, None] * M + m[None, :]
        dr = tl.load(carried + index, mask=reader, other=0.0)
        dr += tl.load(wanted + index, mask=reader, other=0.0)
        M1 = tl.load(cells + (t + 1) * N * M + place, mask=cell, other=0.0)
        add = _tanh(tl.load(said + (H + h[:, None] - R) * M + m[None, :], mask=writer, other=0.0))
        dw += tl.dot(dr, tl.trans(M1), input_precision="ieee")
        dM += tl.dot(tl.trans(w), dr, input_precision="ieee")
        dw += tl.dot(add, tl.trans(dM), input_precision="ieee")
        d_add = tl.dot(w, dM, input_precision="ieee") * (1.0 - add * add)
        tl.store(asked + (H + h[:, None] - R) * M + m[None, :], d_add, mask=writer)
        # equation 3: the product over the other writers is recomputed for each
        kept = tl.full([N, MP], 1.0, tl.float32)
        for writes in range(W):
            erase = tl.sigmoid(tl.load(said + ERASE + writes * M + m, mask=m < M, other=0.0))
            one = tl.sum(tl.where(h[:, None] == R + writes, w, 0.0), 0)
            others = dM * M_
            for beside in range(W):
                other = tl.sigmoid(tl.load(said + ERASE + beside * M + m, mask=m < M, other=0.0))
                second = tl.sum(tl.where((h[:, None] == R + beside) & (beside != writes), w, 0.0), 0)
                others *= 1.0 - second[:, None] * other[None, :]
            d_erase = -tl.sum(others * one[:, None], 0) * erase * (1.0 - erase)
            tl.store(asked + ERASE + writes * M + m, d_erase, mask=m < M)
            d_one = tl.sum(others * erase[None, :], 1)
            dw -= tl.where(h[:, None] == R + writes, d_one[None, :], 0.0)
            kept *= 1.0 - one[:, None] * erase[None, :]
        dM = dM * kept
        # equation 9
        dz = w * (dw - tl.sum(dw * w, 1)[:, None])
        d_gamma = tl.sum(dz * logs, 1) * tl.sigmoid(gamma_)
        tl.store(asked + POSITIVE + H + h, d_gamma, mask=here)
        d_moved = tl.where(moved >= TINY, gamma[:, None] * dz / tl.maximum(moved, TINY), 0.0)
        # equation 8
        d_gated = tl.zeros([HP, N], tl.float32)
        d_shifts = tl.zeros([HP, DP], tl.float32)
        for j in tl.static_range(D):
            share = tl.sum(tl.where(d[None, :] == j, shifts, 0.0), 1)
            origin = (rows + (N * REACH + REACH - j)) % N
            goal = (rows + (N * REACH + j - REACH)) % N
            came = tl.gather(gated, tl.broadcast_to(origin[None, :], HP, N), 1)
            d_gated += share[:, None] * tl.gather(d_moved, tl.broadcast_to(goal[None, :], HP, N), 1)
            d_share = tl.sum(d_moved * came, 1)
            d_shifts += tl.where(d[None, :] == j, d_share[:, None], 0.0)
        d_moves = shifts * (d_shifts - tl.sum(d_shifts * shifts, 1)[:, None])
        tl.store(asked + MOVES + h[:, None] * D + d[None, :], d_moves, mask=here[:, None] & (d[None, :] < D))
        # equation 7
        d_gate = tl.sum(d_gated * (content - w_), 1) * gate * (1.0 - gate)
        tl.store(asked + UNIT + h, d_gate, mask=here)
        d_content = gate[:, None] * d_gated
        dw = tl.where(here[:, None], d_gated - d_content, 0.0)
        # equations 5 and 6
        d_scores = content * (d_content - tl.sum(d_content * content, 1)[:, None])
        d_scores = tl.where(here[:, None], d_scores, 0.0)
        d_strength = tl.sum(d_scores * cosine, 1) * tl.sigmoid(strength_)
        tl.store(asked + POSITIVE + h, d_strength, mask=here)
        d_cosine = strength[:, None] * d_scores
        d_key = tl.dot(d_cosine, unit_cells, input_precision="ieee")
        d_key = (d_key - unit_key * tl.sum(d_key * unit_key, 1)[:, None]) / key_length[:, None]
        tl.store(asked + index, d_key * (1.0 - key * key), mask=here[:, None] & cell)
        d_cells = tl.dot(tl.trans(d_cosine), unit_key, input_precision="ieee")
        dM += (d_cells - unit_cells * tl.sum(d_cells * unit_cells, 1)[:, None]) / cell_length[:, None]
        tl.debug_barrier()
        # the controller
        told = grad_projected + t * G
        for start in range(0, n, BK):
            i = start + tl.arange(0, BK)
            inside = i < n
            dh = tl.load(wanted + R * M + i, mask=inside, other=0.0)
            dh += _transposed_product(S, P, n, asked, n, i, BI)
            if LSTM:
                dh += tl.load(carried + R * M + i, mask=inside, other=0.0)
                a = tl.sigmoid(tl.load(gates + t * G + i, mask=inside, other=0.0))
                f = tl.sigmoid(tl.load(gates + t * G + n + i, mask=inside, other=0.0))
                g = _tanh(tl.load(gates + t * G + 2 * n + i, mask=inside, other=0.0))
                o = tl.sigmoid(tl.load(gates + t * G + 3 * n + i, mask=inside, other=0.0))
                c_ = tl.load(inner + t * n + i, mask=inside, other=0.0)
                y = _tanh(tl.load(inner + (t + 1) * n + i, mask=inside, other=0.0))
                dc = tl.load(grad_inner + (step % 2) * n + i, mask=inside, other=0.0)
                dc += dh * o * (1.0 - y * y)
                tl.store(told + i, dc * g * a * (1.0 - a), mask=inside)
                tl.store(told + n + i, dc * c_ * f * (1.0 - f), mask=inside)
                tl.store(told + 2 * n + i, dc * a * (1.0 - g * g), mask=inside)
                tl.store(told + 3 * n + i, dh * y * o * (1.0 - o), mask=inside)
                tl.store(grad_inner + ((step + 1) % 2) * n + i, dc * f, mask=inside)
            else:
                y = tl.load(heard + (t + 1) * (R * M + n) + R * M + i, mask=inside, other=0.0)
                tl.store(told + i, dh * (1.0 - y * y), mask=inside)
        tl.debug_barrier()
        for start in range(0, K, BK):
            k = start + tl.arange(0, BK)
            tl.store(carried + k, _transposed_product(V, G, K, told, K, k, BI), mask=k < K)
        tl.debug_barrier()
    tl.store(grad_cells + b * N * M + place, dM, mask=cell)
    tl.store(grad_weights + b * H * N + at, dw, mask=here[:, None])

"""SNAIL's three blocks again, as loops over numbers."""

import math


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def affine(W, b, x):
    return [sum(w * v for w, v in zip(row, x, strict=True)) + c for row, c in zip(W, b, strict=True)]


def dense(xs, *, dilation, W_now, b_now, W_before):
    """One dense block over a list of vectors; the first half of the rows is the filter, the rest the gate."""
    out = []
    for t, x in enumerate(xs):
        older = xs[t - dilation] if t >= dilation else [0.0] * len(x)
        now, before = affine(W_now, b_now, x), affine(W_before, [0.0] * len(b_now), older)
        gates = [a + b for a, b in zip(now, before, strict=True)]
        D = len(gates) // 2
        out.append(list(x) + [math.tanh(gates[i]) * sigmoid(gates[D + i]) for i in range(D)])
    return out


def attention(xs, *, W_q, b_q, W_k, b_k, W_v, b_v):
    """One attention block: step t reads steps 0 to t."""
    out = []
    for t, x in enumerate(xs):
        query = affine(W_q, b_q, x)
        scores = []
        for s in range(t + 1):
            key = affine(W_k, b_k, xs[s])
            scores.append(sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(len(key)))
        powers = [math.exp(score - max(scores)) for score in scores]
        read = [0.0] * len(b_v)
        for s in range(t + 1):
            value = affine(W_v, b_v, xs[s])
            read = [r + powers[s] / sum(powers) * v for r, v in zip(read, value, strict=True)]
        out.append(list(x) + read)
    return out

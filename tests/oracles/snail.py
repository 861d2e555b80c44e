"""SNAIL's three blocks again, as loops over numbers."""

import math

from oracles.linear import apply, inner, sigmoid


def dense(xs, *, dilation, W_now, b_now, W_before):
    """One dense block over a list of vectors; the first half of the rows is the filter, the rest the gate."""
    out = []
    for t, x in enumerate(xs):
        older = xs[t - dilation] if t >= dilation else [0.0] * len(x)
        now, before = apply(W_now, x, b_now), apply(W_before, older)
        gates = [a + b for a, b in zip(now, before, strict=True)]
        D = len(gates) // 2
        out.append(list(x) + [math.tanh(gates[i]) * sigmoid(gates[D + i]) for i in range(D)])
    return out


def attention(xs, *, W_q, b_q, W_k, b_k, W_v, b_v):
    """One attention block: step t reads steps 0 to t."""
    out = []
    for t, x in enumerate(xs):
        query = apply(W_q, x, b_q)
        scores = []
        for s in range(t + 1):
            key = apply(W_k, xs[s], b_k)
            scores.append(inner(query, key) / math.sqrt(len(key)))
        powers = [math.exp(score - max(scores)) for score in scores]
        read = [0.0] * len(b_v)
        for s in range(t + 1):
            value = apply(W_v, xs[s], b_v)
            read = [r + powers[s] / sum(powers) * v for r, v in zip(read, value, strict=True)]
        out.append(list(x) + read)
    return out

"""The LSTMN again, as loops over numbers: equations 4 to 9, and 11 to 16 for deep fusion."""

import math

from oracles.linear import apply, inner, sigmoid
from oracles.softmax import softmax


def read(tape_h, tape_c, asks, W_h, b_h, v):
    """Weights over the slots, h̃ and c̃; `asks` is W_x x_t + W_h̃ h̃_{t-1}."""
    scores = []
    for h in tape_h:
        key = apply(W_h, h, b_h)
        scores.append(inner(v, [math.tanh(k + q) for k, q in zip(key, asks, strict=True)]))
    weights = softmax(scores)
    summary = [sum(w * h[d] for w, h in zip(weights, tape_h, strict=True)) for d in range(len(tape_h[0]))]
    memory = [sum(w * c[d] for w, c in zip(weights, tape_c, strict=True)) for d in range(len(tape_c[0]))]
    return weights, summary, memory


def lstmn(xs, cell, span=None, added=None):
    """xs: T vectors. cell: W, b, U (rows i f o ĉ query), W_h, b_h, v, as nested lists.

    Returns h_t, c_t and weights of each step. `added(t)` is what deep fusion adds to c_t.
    """
    n = len(cell["v"])
    tape_h, tape_c, summary = [[0.0] * n], [[0.0] * n], [0.0] * n
    every = []
    for t, x in enumerate(xs):
        given = apply(cell["W"], x, cell["b"])
        asks = given[4 * n :]
        if len(cell["U"]) > 4 * n:
            asks = [a + b for a, b in zip(asks, apply(cell["U"][4 * n :], summary), strict=True)]
        first = 0 if span is None else max(0, len(tape_h) - span)
        weights, summary, memory = read(
            tape_h[first:], tape_c[first:], asks, cell["W_h"], cell["b_h"], cell["v"]
        )
        gates = [a + b for a, b in zip(given[: 4 * n], apply(cell["U"][: 4 * n], summary), strict=True)]
        i, f, o = ([sigmoid(x) for x in gates[k * n : (k + 1) * n]] for k in range(3))
        candidate = [math.tanh(x) for x in gates[3 * n :]]
        c = [f[d] * memory[d] + i[d] * candidate[d] for d in range(n)]
        if added is not None:
            c = [a + b for a, b in zip(c, added(t), strict=True)]
        h = [o[d] * math.tanh(c[d]) for d in range(n)]
        tape_h.append(h)
        tape_c.append(c)
        every.append((h, c, weights))
    return every

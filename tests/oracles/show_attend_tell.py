"""Show, attend and tell (Xu et al. 2015), equations 1 to 9 and 14, in loops over scalars."""

import math

from oracles.linear import apply, sigmoid
from oracles.softmax import softmax


def weights(annotations, h, p, kind):
    """α_t: softmax of vᵀ tanh(W h + U a + b), its largest alone, or the same everywhere."""
    query = apply(p["att_W"], h)
    scores = []
    for a in annotations:
        key = apply(p["att_U"], a, p["att_b"])
        scores.append(sum(v * math.tanh(q + k) for v, q, k in zip(p["att_v"], query, key, strict=True)))
    alpha = softmax(scores)
    if kind == "hard":
        best = scores.index(max(scores))
        return [float(i == best) for i in range(len(scores))]
    if kind == "mean":
        return [1 / len(scores)] * len(scores)
    return alpha


def start(annotations, p):
    """h_0 and c_0 from the mean annotation."""
    mean = [sum(column) / len(annotations) for column in zip(*annotations, strict=True)]
    first = [max(0.0, x) for x in apply(p["start"], mean, p["start_b"])]
    h = [math.tanh(x) for x in apply(p["start_h"], first, p["start_h_b"])]
    c = [math.tanh(x) for x in apply(p["start_c"], first, p["start_c_b"])]
    return h, c


def step(annotations, word, h, c, p, kind):
    """(E y_{t-1}), h_{t-1}, c_{t-1} -> log p(y_t), h_t, c_t, α_t."""
    alpha = weights(annotations, h, p, kind)
    beta = sigmoid(apply(p["gate"], h, p["gate_b"])[0])
    z = [
        beta * sum(alpha[i] * annotations[i][d] for i in range(len(annotations)))
        for d in range(len(annotations[0]))
    ]
    sums = [
        a + b + d
        for a, b, d in zip(apply(p["W"], word, p["b"]), apply(p["U"], h), apply(p["Z"], z), strict=True)
    ]
    n = len(h)
    new_h, new_c = [], []
    for j in range(n):
        i, f, o = (sigmoid(sums[k * n + j]) for k in range(3))
        new_c.append(f * c[j] + i * math.tanh(sums[3 * n + j]))
        new_h.append(o * math.tanh(new_c[j]))
    inner = [
        math.tanh(a + b + d)
        for a, b, d in zip(word, apply(p["L_h"], new_h, p["L_h_b"]), apply(p["L_z"], z), strict=True)
    ]
    told = apply(p["L_o"], inner, p["L_o_b"])
    top = max(told)
    total = top + math.log(sum(math.exp(x - top) for x in told))
    return [x - total for x in told], new_h, new_c, alpha


def caption(annotations, words, p, kind):
    """Log-probabilities at each step after the words before it, and the weights; the first word is zero."""
    h, c = start(annotations, p)
    logs, alphas = [], []
    for word in words:
        told, h, c, alpha = step(annotations, word, h, c, p, kind)
        logs.append(told)
        alphas.append(alpha)
    return logs, alphas


def penalty(alphas, target):
    """Σ_i (τ - Σ_t α_ti)²."""
    return sum((target - sum(alpha[i] for alpha in alphas)) ** 2 for i in range(len(alphas[0])))

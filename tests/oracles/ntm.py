"""Graves 2014, equations 2 to 9: the memory of a Neural Turing Machine, one number at a time."""

from oracles.cosine import cosine
from oracles.softmax import softmax


def content(cells, key, strength):
    return softmax([cosine(key, row, strength) for row in cells])


def interpolate(content, previous, gate):
    return [gate * c + (1 - gate) * w for c, w in zip(content, previous, strict=True)]


def shift(weights, shifts):
    """w̃(i) = Σ_j w(j) s(i - j), indices modulo N; `shifts` holds s(-r) .. s(r)."""
    N, r = len(weights), len(shifts) // 2
    out = [0.0] * N
    for j in range(N):
        for offset in range(-r, r + 1):
            out[(j + offset) % N] += weights[j] * shifts[offset + r]
    return out


def sharpen(weights, gamma):
    total = sum(w**gamma for w in weights)
    return [w**gamma / total for w in weights]


def read(cells, weights):
    vector = [0.0] * len(cells[0])
    for w, row in zip(weights, cells, strict=True):
        for m, x in enumerate(row):
            vector[m] += w * x
    return vector


def write(cells, heads):
    """`heads` is a list of (weights, erase, add): all erase, then all add."""
    new = [list(row) for row in cells]
    for weights, erase, _ in heads:
        for i, w in enumerate(weights):
            for m, e in enumerate(erase):
                new[i][m] *= 1 - w * e
    for weights, _, add in heads:
        for i, w in enumerate(weights):
            for m, a in enumerate(add):
                new[i][m] += w * a
    return new

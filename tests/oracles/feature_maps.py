"""Zhang 2018, equations 1 to 3, and Wang 2018, equations 1 to 7, one place of a feature map at a time."""

import math

from oracles.linear import add, apply, inner, weighted_sum


def places(x):
    """C planes of H × W numbers -> the H W vectors, row by row."""
    H, W = len(x[0]), len(x[0][0])
    return [[plane[i][j] for plane in x] for i in range(H) for j in range(W)]


def planes(vectors, H, W):
    return [[[vectors[i * W + j][c] for j in range(W)] for i in range(H)] for c in range(len(vectors[0]))]


def pooled(x, size):
    """The maximum over squares of size × size; what does not fill a square is left out."""
    return [
        [
            [
                max(plane[i * size + a][j * size + b] for a in range(size) for b in range(size))
                for j in range(len(plane[0]) // size)
            ]
            for i in range(len(plane) // size)
        ]
        for plane in x
    ]


def convolved(x, matrix, bias=None):
    """1 × 1: the same matrix at every place."""
    return planes([apply(matrix, v, bias) for v in places(x)], len(x[0]), len(x[0][0]))


def self_attention(x, W_f, W_g, W_h, W_v, gamma, size):
    f, h = (places(pooled(convolved(x, W), size)) for W in (W_f, W_h))
    g = places(convolved(x, W_g))
    y = []
    for j, x_j in enumerate(places(x)):
        s = [inner(f[i], g[j]) for i in range(len(f))]
        total = sum(math.exp(e) for e in s)
        beta = [math.exp(e) / total for e in s]
        o = apply(W_v, weighted_sum(beta, h))
        y.append(add([gamma * each for each in o], x_j))
    return planes(y, len(x[0]), len(x[0][0]))


def non_local(x, form, theta, phi, g, W_z, size, w_f=None):
    """theta, phi, g, W_z are pairs of matrix and bias; the Gaussian form has neither theta nor phi."""
    coarse = pooled(x, size)
    queries = places(convolved(x, *theta) if theta else x)
    keys = places(convolved(coarse, *phi) if phi else coarse)
    values = places(convolved(coarse, *g))
    N = len(keys)
    z = []
    for q, x_i in zip(queries, places(x), strict=True):
        if form in ("gaussian", "embedded"):
            f = [math.exp(inner(q, k)) for k in keys]
            C = sum(f)
        elif form == "dot":
            f, C = [inner(q, k) for k in keys], N
        else:
            f, C = [max(inner(w_f, [*q, *k]), 0.0) for k in keys], N
        y = [each / C for each in weighted_sum(f, values)]
        z.append(add(apply(W_z[0], y, W_z[1]), x_i))
    return planes(z, len(x[0]), len(x[0][0]))

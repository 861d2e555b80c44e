"""Tu 2016, equations 5 to 7: e_ij = vᵀ tanh(W t_{i-1} + U h_j + V C_{i-1,j}), C = Σ α / Φ, Φ = N σ(U_f h)."""

from oracles.linear import add, apply, inner, sigmoid, tanh


def fertility(k, U_f, N):
    return N * sigmoid(inner(U_f, k))


def coverage(q, k, attended, W, U, b, V, U_f, N, v):
    """`attended` is the sum of the weights this key has received."""
    C = attended / fertility(k, U_f, N)
    return inner(v, tanh(add(apply(W, q), apply(U, k), [x * C for x in V], b)))

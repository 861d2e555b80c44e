"""Wang 2018, equation 7: f(x_i, x_j) = ReLU(w_fᵀ [θ(x_i), φ(x_j)])."""

from oracles.linear import inner


def rectified(q, k, w):
    return max(inner(w, [*q, *k]), 0.0)

"""Parikh 2016, equation 1: e_ij = F(ā_i)ᵀ F(b̄_j), F two layers of ReLU units."""

from oracles.linear import apply, inner, relu


def feedforward(q, k, W1, b1, W2, b2):
    def F(x):
        return relu(apply(W2, relu(apply(W1, x, b1)), b2))

    return inner(F(q), F(k))

"""Bahdanau 2014, appendix A.1.2: e_ij = v_aᵀ tanh(W_a s_{i-1} + U_a h_j), with a bias."""

from oracles.linear import add, apply, inner, tanh


def additive(q, k, W, U, b, v):
    return inner(v, tanh(add(apply(W, q), apply(U, k), b)))

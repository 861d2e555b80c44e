"""Luong 2015, section 3.1: score(h_t, h̄_s) = v_aᵀ tanh(W_a [h_t; h̄_s])."""

from oracles.linear import apply, inner, tanh


def concat(q, k, W, v):
    return inner(v, tanh(apply(W, q + k)))  # q + k joins the lists: [q; k]

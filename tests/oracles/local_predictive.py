"""Luong 2015, equations 9 and 10, local-p: p_t = S σ(v_pᵀ tanh(W_p h_t)), a Gaussian of σ = D / 2."""

import math

from oracles.linear import apply, inner, sigmoid, tanh
from oracles.softmax import softmax


def centre(q, S, W, v):
    return S * sigmoid(inner(v, tanh(apply(W, q))))


def local_predictive(scores, q, S, D, W, v):
    """S is the length of the sentence: `scores` beyond it are padding."""
    p = centre(q, S, W, v)
    window = [e if s < S and p - D <= s <= p + D else -math.inf for s, e in enumerate(scores)]
    sigma = D / 2
    return [a * math.exp(-((s - p) ** 2) / (2 * sigma**2)) for s, a in enumerate(softmax(window))]

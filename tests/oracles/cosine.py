"""Graves 2014, equations 5 and 6: β K[k_t, M_t(i)], K[u, v] = u · v / (‖u‖ ‖v‖)."""

from oracles.linear import inner, norm


def cosine(q, k, strength):
    return strength * inner(q, k) / (norm(q) * norm(k))

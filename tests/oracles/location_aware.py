"""Chorowski 2015, equations 8 and 9: f_i = F * α_{i-1}; e_ij = wᵀ tanh(W s_{i-1} + V h_j + U f_ij + b).

The filters are learned, so which end of F comes first is a convention: entry 0 meets the leftmost position.
Outside the sentence the previous alignment is zero.
"""

from oracles.linear import add, apply, inner, tanh


def convolved(previous, j, F):
    """f_{i,j}: one number per filter."""
    features = []
    for kernel in F:
        reach = len(kernel) // 2
        total = 0.0
        for d in range(-reach, reach + 1):
            if 0 <= j + d < len(previous):
                total += kernel[d + reach] * previous[j + d]
        features.append(total)
    return features


def location_aware(q, k, j, previous, W, V, b, U, F, w):
    return inner(w, tanh(add(apply(W, q), apply(V, k), apply(U, convolved(previous, j, F)), b)))

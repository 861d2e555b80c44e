"""Martins & Astudillo 2016, equation 1: the point of the simplex nearest to the scores.

By bisection on the threshold τ with Σ max(z - τ, 0) = 1, and not by sorting.
"""

import math


def sparsemax(scores):
    visible = [z for z in scores if z > -math.inf]
    if not visible:
        return [0.0] * len(scores)
    low, high = max(visible) - 1.0, max(visible)  # at low the sum is at least 1, at high it is 0
    for _ in range(200):
        middle = (low + high) / 2
        if sum(max(z - middle, 0.0) for z in visible) > 1.0:
            low = middle
        else:
            high = middle
    return [max(z - low, 0.0) if z > -math.inf else 0.0 for z in scores]

"""Wang 2018, section 3.2: f(x_i, x_j) / C(x) with C(x) = N, the number of visible positions."""

import math


def count(scores):
    N = 0
    for e in scores:
        N += e > -math.inf
    return [e / N if e > -math.inf else 0.0 for e in scores]

"""Wang 2018, section 3.2: the factor C(x) = N; every visible position weighs 1 / N."""

import math


def mean(scores):
    N = 0
    for e in scores:
        N += e > -math.inf
    return [1.0 / N if e > -math.inf else 0.0 for e in scores]

"""Luong 2015, section 3.2, local-m: p_t = t; softmax over the positions in [p_t - D, p_t + D]."""

import math

from oracles.softmax import softmax


def local_monotonic(scores, t, D):
    return softmax([e if t - D <= s <= t + D else -math.inf for s, e in enumerate(scores)])

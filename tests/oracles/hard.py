"""Xu 2015, section 4.1: one position is taken; here the likeliest, as at evaluation."""

import math


def argmax(scores):
    best, place = -math.inf, None
    for s, e in enumerate(scores):
        if e > best:
            best, place = e, s
    return [1.0 if s == place else 0.0 for s in range(len(scores))]

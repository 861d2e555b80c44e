"""Luong 2015, section 3.1: score(h_t, h̄_s) = h_t · h̄_s. Vaswani 2017, equation 1: divided by √d_k."""

import math

from oracles.linear import inner


def dot(q, k):
    return inner(q, k)


def scaled_dot(q, k):
    return inner(q, k) / math.sqrt(len(k))

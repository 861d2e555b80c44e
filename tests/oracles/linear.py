"""Vectors and matrices as lists: the only algebra the oracles use."""

import math


def inner(a, b):
    assert len(a) == len(b)
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += x * y
    return total


def apply(matrix, vector, bias=None):
    """matrix (rows × columns) times vector, plus bias."""
    out = [inner(row, vector) for row in matrix]
    return out if bias is None else [x + b for x, b in zip(out, bias, strict=True)]


def add(*vectors):
    return [sum(parts) for parts in zip(*vectors, strict=True)]


def norm(vector):
    return math.sqrt(inner(vector, vector))


def sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x))


def softplus(x):
    return math.log(1.0 + math.exp(x))


def tanh(vector):
    return [math.tanh(x) for x in vector]


def relu(vector):
    return [x if x > 0 else 0.0 for x in vector]


def table(function, queries, keys):
    """One number for each pair of a query and a key."""
    return [[function(q, k) for k in keys] for q in queries]


def weighted_sum(weights, values):
    """c = Σ_s a(s) v_s, skipping what has no weight."""
    context = [0.0] * len(values[0])
    for a, value in zip(weights, values, strict=True):
        for d, x in enumerate(value):
            context[d] += a * x
    return context

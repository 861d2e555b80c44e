"""Vaswani 2017, section 3.2.2: [head_1; ..; head_h] W_O, head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i)."""

from oracles.dot import scaled_dot
from oracles.linear import apply, weighted_sum
from oracles.softmax import softmax


def multihead(queries, keys, values, W_Q, W_K, W_V, W_O, heads):
    """All W map a vector by matrix times vector; head i owns the i-th group of rows of W_Q, W_K and W_V."""
    size = len(W_Q) // heads
    outputs, alignments = [], [[] for _ in range(heads)]
    for q in queries:
        joined = []
        for i in range(heads):
            rows = slice(i * size, (i + 1) * size)
            query = apply(W_Q[rows], q)
            weights = softmax([scaled_dot(query, apply(W_K[rows], k)) for k in keys])
            alignments[i].append(weights)
            joined += weighted_sum(weights, [apply(W_V[rows], value) for value in values])
        outputs.append(apply(W_O, joined))
    return outputs, alignments

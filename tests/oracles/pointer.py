"""Vinyals, Fortunato, Jaitly 2015, equation 3, and an LSTM, over lists of numbers."""

from math import exp, log, tanh

from oracles.linear import apply, sigmoid


def lstm_step(x, h, c, W, U, b):
    """Gates in torch's order: input, forget, cell, output."""
    n = len(h)
    sums = [p + q + r for p, q, r in zip(apply(W, x), apply(U, h), b, strict=True)]
    new_c = [sigmoid(sums[n + k]) * c[k] + sigmoid(sums[k]) * tanh(sums[2 * n + k]) for k in range(n)]
    return [sigmoid(sums[3 * n + k]) * tanh(new_c[k]) for k in range(n)], new_c


def pointer(encoder_states, d, W1, b1, W2, v):
    """p(C_i = j) for every encoder state e_j."""
    query = apply(W2, d)
    u = []
    for e in encoder_states:
        key = apply(W1, e, b1)
        u.append(sum(w * tanh(k + q) for w, k, q in zip(v, key, query, strict=True)))
    total = sum(exp(each) for each in u)
    return [exp(each) / total for each in u]


def network(points, order, p):
    """log p(order, end | points) of a whole pointer network; p names the parameters."""
    n = len(p["end"])
    h, c = [0.0] * n, [0.0] * n
    states = [p["end"]]
    for x in points:
        h, c = lstm_step(x, h, c, p["enc_W"], p["enc_U"], p["enc_b"])
        states.append(h)
    read, total = p["go"], 0.0
    for target in [*(number + 1 for number in order), 0]:
        h, c = lstm_step(read, h, c, p["dec_W"], p["dec_U"], p["dec_b"])
        total += log(pointer(states, h, p["W1"], p["b1"], p["W2"], p["v"])[target])
        read = points[target - 1]
    return total

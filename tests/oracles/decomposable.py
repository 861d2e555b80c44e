"""Parikh 2016, equations 1 to 5 and 7, word by word on lists of numbers."""

import math

from oracles.linear import add, apply, inner


def relu(x):
    return [max(value, 0.0) for value in x]


def feed_forward(net, x):
    """`net` is a list of (W, b)."""
    for W, b in net:
        x = relu(add(apply(W, x), b))
    return x


def blend(scores, vectors):
    """Σ softmax(scores) vectors."""
    top = max(scores)
    parts = [math.exp(score - top) for score in scores]
    total = sum(parts)
    return [
        sum(p / total * v[n] for p, v in zip(parts, vectors, strict=True)) for n in range(len(vectors[0]))
    ]


def intra(sentence, F, d, far):
    """[a_i; a'_i]; `d` has the biases of -far … far and one for all beyond."""
    f = [feed_forward(F, word) for word in sentence]
    made = []
    for i in range(len(sentence)):
        scores = []
        for j in range(len(sentence)):
            bias = d[i - j + far] if abs(i - j) <= far else d[-1]
            scores.append(inner(f[i], f[j]) + bias)
        made.append([*sentence[i], *blend(scores, sentence)])
    return made


def decomposable(a, b, F, G, H, out):
    """Two lists of word vectors -> the scores of the classes; `out` is the last layer (W, b) of H."""
    F_a, F_b = [feed_forward(F, x) for x in a], [feed_forward(F, x) for x in b]
    v_1, v_2 = None, None
    for i in range(len(a)):
        beta = blend([inner(F_a[i], F_b[j]) for j in range(len(b))], b)
        v = feed_forward(G, [*a[i], *beta])
        v_1 = v if v_1 is None else add(v_1, v)
    for j in range(len(b)):
        alpha = blend([inner(F_a[i], F_b[j]) for i in range(len(a))], a)
        v = feed_forward(G, [*b[j], *alpha])
        v_2 = v if v_2 is None else add(v_2, v)
    W, c = out
    return add(apply(W, feed_forward(H, [*v_1, *v_2])), c)

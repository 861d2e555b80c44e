"""Graves 2014, section 3: what a controller says becomes a step of the memory, number by number."""

import math

from oracles import ntm
from oracles.linear import sigmoid
from oracles.softmax import softmax


def softplus(x):
    return math.log1p(math.exp(x))


def controls(spoken, width, reads, writes, reach):
    """Keys, adds, gates, erases, strengths, sharpenings, shifts: one dict for every head, reads first."""
    numbers, heads = iter(spoken), reads + writes

    def take(count):
        return [next(numbers) for _ in range(count)]

    keys = [[math.tanh(x) for x in take(width)] for _ in range(heads)]
    adds = [[math.tanh(x) for x in take(width)] for _ in range(writes)]
    gates = [sigmoid(x) for x in take(heads)]
    erases = [[sigmoid(x) for x in take(width)] for _ in range(writes)]
    strengths = [softplus(x) for x in take(heads)]
    gammas = [1 + softplus(x) for x in take(heads)]
    shifts = [softmax(take(2 * reach + 1)) for _ in range(heads)]
    assert next(numbers, None) is None
    found = [
        {"key": k, "strength": b, "gate": g, "shifts": s, "gamma": y}
        for k, b, g, s, y in zip(keys, strengths, gates, shifts, gammas, strict=True)
    ]
    for head, erase, add in zip(found[reads:], erases, adds, strict=True):
        head.update(erase=erase, add=add)
    return found


def address(cells, previous, head):
    content = ntm.content(cells, head["key"], head["strength"])
    gated = ntm.interpolate(content, previous, head["gate"])
    return ntm.sharpen(ntm.shift(gated, head["shifts"]), head["gamma"])


def advance(cells, previous, found, reads):
    """One step of one memory: new cells, new weightings, what was read."""
    weights = [address(cells, w, head) for w, head in zip(previous, found, strict=True)]
    changes = [
        (w, head["erase"], head["add"]) for w, head in zip(weights[reads:], found[reads:], strict=True)
    ]
    new = ntm.write(cells, changes)
    return new, weights, [ntm.read(new, w) for w in weights[:reads]]

"""Bahdanau 2014, equation 6, with a temperature: α_ij = exp(e_ij / τ) / Σ_k exp(e_ik / τ)."""

import math


def softmax(scores, temperature=1.0):
    shift = max(scores)
    if shift == -math.inf:
        return [0.0] * len(scores)
    parts = [math.exp((e - shift) / temperature) for e in scores]
    return [part / sum(parts) for part in parts]

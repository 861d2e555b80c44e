"""Luong 2015, section 3.1: score(h_t, h̄_s) = h_tᵀ W_a h̄_s."""


def general(q, k, W):
    """W is Dq × Dk: as a double sum over its entries."""
    total = 0.0
    for i, x in enumerate(q):
        for j, y in enumerate(k):
            total += x * W[i][j] * y
    return total

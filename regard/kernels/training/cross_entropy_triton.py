"""The loss of two passes that are to agree, and its gradient, in Triton: one program per row of both passes.

The formulas are those of cross_entropy.py. A program reads its rows three times: for log Σ e^z, for the loss,
and for the gradient; the second and third reads hit the cache. Ignored rows are not read.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl

WIDEST = 2048  # elements of a row that a program loads at a time


@triton.jit
def _log_sum(scores, row, V, BLOCK: tl.constexpr):
    """log Σ_v e^z of one row; each lane keeps its own maximum and sum."""
    most = tl.full((BLOCK,), -1e30, tl.float32)  # finite, for lanes beyond the row, which see nothing else
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, V, BLOCK):
        v = start + tl.arange(0, BLOCK)
        z = tl.load(scores + row * V + v, mask=v < V, other=float("-inf")).to(tl.float32)
        larger = tl.maximum(most, z)
        total = total * tl.exp(most - larger) + tl.exp(z - larger)
        most = larger
    largest = tl.max(most, 0)
    return largest + tl.log(tl.sum(total * tl.exp(most - largest), 0))


@triton.jit(do_not_specialize=["smoothing", "weight"])
def kernel(scores, words, losses, grad, N, V, smoothing, weight, WANTED: tl.constexpr, BLOCK: tl.constexpr):
    """losses[n], and if WANTED grad[n] and grad[n + N]."""
    n = tl.program_id(0).to(tl.int64)
    word = tl.load(words + n)
    if word < 0:
        tl.store(losses + n, 0.0)
        if WANTED:
            zeros = tl.zeros((BLOCK,), tl.float32).to(grad.dtype.element_ty)
            for start in range(0, V, BLOCK):
                v = start + tl.arange(0, BLOCK)
                tl.store(grad + n * V + v, zeros, mask=v < V)
                tl.store(grad + (n + N) * V + v, zeros, mask=v < V)
    else:
        log_1 = _log_sum(scores, n, V, BLOCK)
        log_2 = _log_sum(scores, n + N, V, BLOCK)
        everywhere = tl.zeros((BLOCK,), tl.float32)
        forth = tl.zeros((BLOCK,), tl.float32)
        back = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, V, BLOCK):
            v = start + tl.arange(0, BLOCK)
            z_1 = tl.load(scores + n * V + v, mask=v < V, other=0.0).to(tl.float32)
            z_2 = tl.load(scores + (n + N) * V + v, mask=v < V, other=0.0).to(tl.float32)
            everywhere += z_1 + z_2
            apart = tl.where(v < V, (z_1 - log_1) - (z_2 - log_2), 0.0)
            forth += tl.exp(z_1 - log_1) * apart
            back -= tl.exp(z_2 - log_2) * apart
        k_1 = tl.sum(forth, 0)
        k_2 = tl.sum(back, 0)
        chosen = tl.load(scores + n * V + word).to(tl.float32)
        chosen += tl.load(scores + (n + N) * V + word).to(tl.float32)
        entropy = log_1 + log_2 - (1.0 - smoothing) * chosen - smoothing / V * tl.sum(everywhere, 0)
        tl.store(losses + n, 0.5 * entropy + 0.25 * weight * (k_1 + k_2))
        if WANTED:
            for start in range(0, V, BLOCK):
                v = start + tl.arange(0, BLOCK)
                q = tl.where(v == word, 1.0 - smoothing, 0.0) + smoothing / V
                a_1 = tl.load(scores + n * V + v, mask=v < V, other=0.0).to(tl.float32) - log_1
                a_2 = tl.load(scores + (n + N) * V + v, mask=v < V, other=0.0).to(tl.float32) - log_2
                p_1 = tl.exp(a_1)
                p_2 = tl.exp(a_2)
                of_1 = 0.5 * (p_1 - q) + 0.25 * weight * (p_1 * (a_1 - a_2 - k_1) + p_1 - p_2)
                of_2 = 0.5 * (p_2 - q) - 0.25 * weight * (p_2 * (a_1 - a_2 + k_2) + p_1 - p_2)
                tl.store(grad + n * V + v, of_1.to(grad.dtype.element_ty), mask=v < V)
                tl.store(grad + (n + N) * V + v, of_2.to(grad.dtype.element_ty), mask=v < V)

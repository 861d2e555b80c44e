"""How a Neural Turing Machine finds a memory row: by content, then from the last place, shifted, sharpened.

    w_c(i) = exp(β K[k, M(i)]) / Σ_j exp(β K[k, M(j)]),  K = cosine    (equations 5 and 6)
    w_g    = g w_c + (1 - g) w_{t-1}                                   (equation 7)
    w̃(i)   = Σ_j w_g(j) s(i - j)   modulo N                            (equation 8)
    w(i)   = w̃(i)^γ / Σ_j w̃(j)^γ                                       (equation 9)

    paper    here        shape
    M_t      cells       (..., N, M)
    k_t      key         (..., M)
    β_t      strength    (..., 1)   > 0
    g_t      gate        (..., 1)   in (0, 1)
    s_t      shifts      (..., 2r + 1), a distribution over the offsets -r … r
    γ_t      gamma       (..., 1)   ≥ 1
    w        weights     (..., N)

Heads are a leading axis: cells (B, 1, N, M) with key (B, R, M). These are pure functions, because the paper
gives equations and not objects.

Graves, Wayne, Danihelka. Neural Turing machines. 2014. https://arxiv.org/abs/1410.5401
"""

import torch
from torch import Tensor

from regard.attention.numerics import no_autocast, upcast
from regard.attention.scores.cosine import unit
from regard.catalog import card
from regard.errors import ShapeError, check_shapes


@card(
    "memory",
    "ntm-addressing",
    title="Neural Turing Machine addressing",
    authors="Graves, Wayne, Danihelka",
    year=2014,
    link="https://arxiv.org/abs/1410.5401",
    sentence="A memory row is found by content, then from where the head stood, shifted and sharpened.",
)
def content_weights(cells: Tensor, key: Tensor, strength: Tensor) -> Tensor:
    """(..., N, M), (..., M), (..., 1) -> (..., N): how much each row resembles the key."""
    check_shapes("content_weights", ("cells", cells, "... N M"), ("key", key, "... M"))
    with no_autocast(cells):
        cosine = torch.einsum("...nm,...m->...n", unit(cells), unit(key))
        return (upcast(strength) * cosine).softmax(-1)


def interpolate(content: Tensor, previous: Tensor, gate: Tensor) -> Tensor:
    """(..., N), (..., N), (..., 1) -> (..., N): the gate blends content with the head's last place."""
    return torch.lerp(upcast(previous), upcast(content), upcast(gate))


def shift(weights: Tensor, shifts: Tensor) -> Tensor:
    """(..., N), (..., 2r + 1) -> (..., N): move the weights by -r … r rows, with wraparound."""
    N, width = weights.shape[-1], shifts.shape[-1]
    if width % 2 == 0:
        raise ShapeError(f"shift: `shifts` has shape {tuple(shifts.shape)}; expected (..., 2r + 1).")
    r = width // 2
    laps = -(-r // N)  # a filter wider than the memory wraps around more than once
    ring = weights.repeat(*[1] * (weights.ndim - 1), 2 * laps + 1)
    # row i sees the rows i - r … i + r, and receives offset d from row i - d
    seen = upcast(ring).narrow(-1, laps * N - r, N + 2 * r).unfold(-1, width, 1)  # (..., N, 2r + 1)
    with no_autocast(weights):  # rounded at every step, the weights would no longer sum to one
        return torch.einsum("...nd,...d->...n", seen, upcast(shifts).flip(-1))


def sharpen(weights: Tensor, gamma: Tensor) -> Tensor:
    """(..., N), (..., 1) -> (..., N): undo the blur of the shift."""
    # in logarithms, so that large γ does not underflow; the floor keeps the gradient finite at weight 0
    return (gamma * weights.clamp_min(torch.finfo(weights.dtype).tiny).log()).softmax(-1)

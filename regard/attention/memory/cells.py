"""Reading and writing a Neural Turing Machine's memory; both return new tensors and change nothing in place.

    r      = Σ_i w(i) M(i)                                 (equation 2)
    M̃(i)   = M_{t-1}(i) [1 - w(i) e]                       (equation 3)
    M_t(i) = M̃(i) + w(i) a                                 (equation 4)

    paper    here       shape
    M_t      cells      (B, N, M)
    w_t      weights    (B, N), or (B, H, N) for several heads
    e_t      erase      (B, M), or (B, H, M), in (0, 1)
    a_t      add        (B, M), or (B, H, M)

With several write heads, all erase first and then all add, so their order does not matter.

Graves, Wayne, Danihelka. Neural Turing machines. 2014. https://arxiv.org/abs/1410.5401
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.catalog import card
from regard.errors import check_shapes


class MemoryState(NamedTuple):
    """The memory and where each head stands."""

    cells: Tensor  # (B, N, M)
    read: Tensor  # (B, R, N) weights of each read head
    write: Tensor  # (B, W, N)


def read(cells: Tensor, weights: Tensor) -> Tensor:
    """(B, N, M), (B, N) or (B, H, N) -> (B, M) or (B, H, M)."""
    check_shapes("read", ("cells", cells, "B N M"), ("weights", weights, "... N"))
    return torch.einsum("bnm,b...n->b...m", cells, weights)


@card(
    "memory",
    "ntm-memory",
    title="Neural Turing Machine reading and writing",
    authors="Graves, Wayne, Danihelka",
    year=2014,
    link="https://arxiv.org/abs/1410.5401",
    sentence="Reading is a weighted sum of rows; writing erases and then adds.",
)
def write(cells: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """(B, N, M), (B, N), (B, M), (B, M) -> new cells; heads are a second axis of the last three."""
    check_shapes("write", ("cells", cells, "B N M"), ("weights", weights, "... N"))
    check_shapes("write", ("erase", erase, "... M"), ("add", add, "... M"), M=cells.shape[-1])
    if weights.ndim == 2:
        weights, erase, add = weights[:, None], erase[:, None], add[:, None]
    kept = product(1 - weights[..., :, None] * erase[..., None, :])  # (B, N, M)
    return cells * kept + torch.einsum("bhn,bhm->bnm", weights, add)


def product(factors: Tensor) -> Tensor:
    """(B, H, ...) -> (B, ...): the product over the second axis, by halving.

    The gradient of `Tensor.prod` counts zeros on the host, which would stall a GPU at every step.
    """
    while factors.shape[1] > 1:
        half = factors.shape[1] // 2
        left, right, odd = torch.split(factors, [half, half, factors.shape[1] - 2 * half], 1)
        factors = torch.cat([left * right, odd], 1)
    return factors[:, 0]

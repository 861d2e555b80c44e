"""The two forms of most scores once query and keys are prepared. Kernels are written for a form.

    Product      e[t, s] = scale · q_t · k_s
    Additive     e[t, s] = vᵀ tanh(W q_t + k_s)

A score returns its form (`Score.form`), and the form computes the scores. So a kernel never names a score,
and a new score with a form gets every kernel that fits. A result keeps the form of its call, so weights read
later are those of the call even if parameters have changed.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.numerics import no_autocast, times, upcast


class Product(NamedTuple):
    """scale · q · k."""

    query: Tensor  # (..., T, D)
    keys: Tensor  # (..., S, D)
    scale: float = 1.0

    def scores(self) -> Tensor:
        """(..., T, S)."""
        with no_autocast(self.query):
            query = upcast(self.query)
            return times(query if self.scale == 1.0 else query * self.scale, self.keys.mT)

    def kept(self) -> "Product":
        """The form, safe from later changes of the parameters: a product holds none."""
        return self


class Additive(NamedTuple):
    """vᵀ tanh(W q + k); if W is None, the query is already projected."""

    query: Tensor  # (..., T, Dq), or (..., T, D)
    keys: Tensor  # (..., S, D)
    v: Tensor  # (1, D)
    W: Tensor | None = None  # (D, Dq)

    @property
    def a(self) -> Tensor:
        """W q, (..., T, D)."""
        if self.W is None:
            return self.query
        with no_autocast(self.query):  # the call ran without it; a later look may run under it
            return F.linear(self.query, self.W)

    def scores(self) -> Tensor:
        """(..., T, S)."""
        hidden = torch.tanh(upcast(self.a)[..., :, None, :] + upcast(self.keys)[..., None, :, :])
        return output_layer(hidden, self.v)  # of (..., T, S, D)

    def kept(self) -> "Additive":
        """The form with copies of the parameters; gradients still flow through the copies."""
        W = None if self.W is None else self.W.clone()
        return Additive(self.query, self.keys, self.v.clone(), W)


Form = Product | Additive


def output_layer(hidden: Tensor, v: Tensor) -> Tensor:
    """(..., T, S, D), (1, D) -> (..., T, S), in the precision of its input."""
    with no_autocast(hidden):
        return F.linear(hidden, v.to(hidden.dtype)).squeeze(-1)

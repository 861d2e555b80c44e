"""Problems for the kernel of all weights of a softmax of products, and what it must give."""

import torch

from regard import Mask
from regard.attention.looks import Products
from regard.kernels.product.product_looks import PRODUCT_WEIGHTS


def check(lead, T, S, D, *, dtype=torch.float16, mask=None, device="cpu", broadcast=False):
    """The weights are those of float64, to the rounding of a sum of D products and of an exponential."""
    query = torch.randn(*lead, T, D, device=device).to(dtype)
    keys = torch.randn(*((1,) * len(lead) if broadcast else lead), S, D, device=device).to(dtype)
    mask = mask or Mask()
    scale = 2.0 * D**-0.5
    weights = PRODUCT_WEIGHTS.run(Products(query, keys, scale, mask))
    scores = scale * query.double() @ keys.double().mT
    visible = mask.to_dense(T, S, ndim=scores.ndim, device=scores.device)
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    expected = scores.softmax(-1).nan_to_num(0.0)
    assert (weights.dtype, weights.shape) == (torch.float32, (*lead, T, S))
    largest = float(scale * (query.double().abs() @ keys.double().abs().mT).max())
    bound = 4 * torch.finfo(torch.float32).eps * (D + 8) * max(largest, 1.0)
    assert float((weights.double() - expected).abs().max()) <= bound * float(expected.max())
    assert bool((weights[expected == 0] == 0).all())

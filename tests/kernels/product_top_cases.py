"""Problems for the kernel of the k largest weights, and what it must give."""

import torch

from regard import Mask
from regard.attention.looks import Products
from regard.kernels.product.product_looks import PRODUCT_TOP


def check(lead, T, S, D, k, *, dtype=torch.float32, mask=None, device="cpu", broadcast=False, sign=1):
    """The weights are the k largest of each row, to rounding, and stand where the kernel says."""
    query = torch.randn(*lead, T, D, device=device).to(dtype)
    keys = torch.randn(*((1,) * len(lead) if broadcast else lead), S, D, device=device).to(dtype)
    mask = mask or Mask()
    scale = sign * 2.0 * D**-0.5
    weights, places = PRODUCT_TOP.run(Products(query, keys, scale, mask, k))
    scores = scale * query.double() @ keys.double().mT
    visible = mask.to_dense(T, S, ndim=scores.ndim, device=scores.device)
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    expected = scores.softmax(-1).nan_to_num(0.0)
    assert (weights.dtype, weights.shape, places.shape) == (torch.float32, (*lead, T, k), (*lead, T, k))
    # a sum of D products, twice: exp makes a relative error of an absolute one
    eps, largest = (
        torch.finfo(torch.float32).eps,
        float(abs(scale) * (query.double().abs() @ keys.double().abs().mT).max()),
    )
    bound = 4 * eps * (D + 8) * max(largest, 1.0)
    best = expected.topk(k, -1).values
    assert float((weights.double() - best).abs().max()) <= bound * float(best.max())
    assert float((expected.gather(-1, places) - best).abs().max()) <= bound * float(best.max())
    assert bool((places.sort(-1).values.diff(dim=-1) > 0).all())  # no position twice
    assert bool(((places >= 0) & (places < S)).all())

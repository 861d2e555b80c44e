"""Problems for the kernel of a decoder's step, and what it must give."""

import torch

from regard.attention.attend import attend
from regard.attention.scores.dot import DotScore
from regard.kernels.product.product_step import PRODUCT_STEP, ProductStep


def check(R, B, H, S, D, *, dtype, masked, device="cpu", room=0):
    """The kernel beside float64, within a few roundings of the output's precision."""
    query = torch.randn(R, H, D, device=device).to(dtype)
    keys, values = (torch.randn(B, H, S + room, D, device=device).to(dtype)[:, :, :S] for _ in range(2))
    mask = None
    if masked:
        lengths = torch.arange(B, device=device) % S + 1
        mask = torch.arange(S, device=device) < lengths[:, None]
    scale = D**-0.5
    found = PRODUCT_STEP.run(ProductStep(query, keys, values, mask, R // B, scale))
    q = query.double().view(B, R // B, H, D).transpose(1, 2) * scale
    visible = None if mask is None else mask[:, None, None]
    expected = attend(q, keys.double(), values.double(), mask=visible, score=DotScore(1.0)).context
    expected = expected.transpose(1, 2).reshape(R, H, D)
    eps = torch.finfo(dtype).eps
    largest = float(values.abs().max())
    # float32 sums of D products and S weights, then one rounding to the dtype
    bound = (eps + (8 + D + S) * torch.finfo(torch.float32).eps) * largest
    assert found.dtype == dtype
    assert float((found.double() - expected).abs().max()) <= bound

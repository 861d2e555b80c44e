"""Dot, scaled dot, general and cosine scores on PyTorch's own fused attention.

    softmax(scale · q kᵀ + mask) v in one kernel, without the T × S weights in memory

Equal to the reference because each of these scores is a plain product once the source is prepared: general
has multiplied its matrix into the keys, cosine has unit keys and takes β q/‖q‖ as its query.
"""

import torch.nn.functional as F
from torch import Tensor

from regard.attention.mask import Mask
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import exact
from regard.attention.scores.cosine import CosineScore
from regard.attention.scores.dot import DotScore
from regard.attention.scores.general import GeneralScore
from regard.attention.windows.everywhere import Everywhere
from regard.kernels.dispatch import Call


class ScaledDotKernel:
    """torch.nn.functional.scaled_dot_product_attention."""

    name = "sdpa"

    def refuses(self, call: Call) -> str | None:
        if not isinstance(call.score, DotScore | GeneralScore | CosineScore):
            return (
                f"score is {type(call.score).__name__}, this kernel computes dot, general and cosine scores"
            )
        if not isinstance(call.normalizer, Softmax):
            return f"normalizer is {type(call.normalizer).__name__}, this kernel computes Softmax"
        if call.window is not None and not isinstance(call.window, Everywhere):
            return f"window is {type(call.window).__name__}, this kernel has none"
        dtypes = {call.query.dtype, call.source.keys.dtype, call.source.values.dtype}
        if len(dtypes) > 1 and not isinstance(call.score, CosineScore):
            return f"query, keys and values differ in dtype ({', '.join(sorted(map(str, dtypes)))})"
        return None

    def run(self, call: Call) -> Tensor:
        query, scale = _product_form(call)
        keys, values = call.source.keys, call.source.values
        causal, mask = _facts(call.source.mask, query, keys)
        assert isinstance(call.normalizer, Softmax)
        with exact(query):
            context = F.scaled_dot_product_attention(
                query,
                keys.to(query.dtype),
                values.to(query.dtype),
                attn_mask=mask,
                is_causal=causal,
                dropout_p=call.dropout,
                scale=scale / call.normalizer.temperature,
            )
        return context.to(values.dtype)


def _product_form(call: Call) -> tuple[Tensor, float]:
    """The query and the scale with which the score is scale · query · keys."""
    if isinstance(call.score, DotScore):
        return call.query, call.score.factor(call.query.shape[-1])
    if isinstance(call.score, CosineScore):
        return call.score.directions(call.query), 1.0
    return call.query, 1.0


def _facts(mask: Mask, query: Tensor, keys: Tensor) -> tuple[bool, Tensor | None]:
    """Causality alone is told by the flag; everything else by a mask no larger than it need be."""
    T, S = query.shape[-2], keys.shape[-2]
    alone = mask.window is None and mask.lengths is None and mask.dense is None
    if mask.causal and alone and mask.offset == 0 and T == S:
        return True, None
    dense = mask.to_dense(T, S, ndim=query.ndim, device=query.device)
    if dense is not None and dense.ndim < 2:
        dense = dense[None]
    return False, dense


SDPA = ScaledDotKernel()

"""Attention as a function, for keys that are used once."""

from torch import Tensor

from regard.attention.compose import Attention
from regard.attention.mask import Mask
from regard.attention.normalizers.base import Normalizer
from regard.attention.result import AttentionResult
from regard.attention.scores.base import Score


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor | None = None,
    *,
    score: Score,
    normalizer: Normalizer | None = None,
    mask: Mask | Tensor | None = None,
    kernel: str = "auto",
) -> AttentionResult:
    """Attention in one call, for keys that are used only once.

        x = torch.randn(2, 6, 16)
        attend(x, x, score=DotScore(), mask=Mask(causal=True)).context

    For keys that are used more than once, prepare them with `Attention`.
    """
    attention = Attention(score, normalizer=normalizer, kernel=kernel).train(score.training)
    return attention(query, attention.prepare(keys, values, mask))

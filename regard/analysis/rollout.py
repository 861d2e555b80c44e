"""Analysis: attention of all layers as one matrix (Abnar & Zuidema 2020); by gradients (Chefer et al. 2021).

    Ā_l = 0.5 A_l + 0.5 I                      A_l: the mean over heads; I stands for the residual connection
    rollout = Ā_L ⋯ Ā_2 Ā_1                                                   (Abnar & Zuidema, section 3)

    Ā_l = mean_h (∇A_l ⊙ A_l)⁺                 ∇A_l: the gradient of the output that is to be explained
    R ← R + Ā_l R,   R = I before the first layer                              (Chefer et al., equations 5, 6)

    papers   here       shape
    A        weights    (..., H, T, T)
    ∇A       gradients  (..., H, T, T)
    R        relevance  (..., T, T)

Row t says how much of each input position is in position t of the last layer.

Abnar, Zuidema. Quantifying attention flow in transformers. 2020. https://arxiv.org/abs/2005.00928
Chefer, Gur, Wolf. Generic attention-model explainability for interpreting bi-modal and encoder-decoder
transformers. 2021. https://arxiv.org/abs/2103.15679
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention.foreign.seen import RecordedResult
from regard.attention.trace import Trace
from regard.errors import ConfigError, check_share


def rollout(trace: Trace, paths: Sequence[str] | None = None, *, residual: float = 0.5) -> Tensor:
    """Combine the attention of all layers into (..., T, T); `paths` are in layer order, by default all.

    `residual` is the share of the residual connection; a row that sees nothing has only that.
    """
    check_share("rollout", residual=residual)
    joint: Tensor | None = None
    for path in _paths("rollout", trace, paths):
        mean = _over_heads(trace[path][0].weights)
        eye = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)
        mixed = (1 - residual) * mean + residual * eye
        joint = mixed if joint is None else mixed @ joint
    assert joint is not None
    return joint


def gradient_relevance(trace: Trace, paths: Sequence[str] | None = None) -> Tensor:
    """(..., T, T) relevance of each position, from weights times their gradients.

    with record(model, gradients=True) as trace:
        model(batch).logits[0, label].backward()
    relevance = gradient_relevance(trace)
    """
    relevance: Tensor | None = None
    for path in _paths("gradient_relevance", trace, paths):
        result = trace[path][0]
        if not isinstance(result, RecordedResult):
            raise ConfigError(
                f"gradient_relevance: `trace` has a result of regard's own at {path!r}; expected those of a "
                "model that calls scaled_dot_product_attention."
            )
        with torch.no_grad():
            positive = _over_heads((result.weight_gradients * result.weights).clamp_min(0.0))
            if relevance is None:
                eye = torch.eye(positive.shape[-1], dtype=positive.dtype, device=positive.device)
                relevance = eye.expand_as(positive)
            relevance = relevance + positive @ relevance
    assert relevance is not None
    return relevance


def _over_heads(x: Tensor) -> Tensor:
    """(B, H, T, T) -> (B, T, T), the mean over heads; unchanged without heads."""
    return x.mean(-3) if x.ndim > 3 else x


def _paths(owner: str, trace: Trace, paths: Sequence[str] | None) -> list[str]:
    """The paths of the layers; each must have attended once, to itself."""
    chosen = list(trace) if paths is None else list(paths)
    if not chosen:
        raise ConfigError(f"{owner}: `trace` has no results; expected those of one or more layers.")
    sizes = set()
    for path in chosen:
        if path not in trace:
            known = ", ".join(map(repr, trace))
            raise ConfigError(f"{owner}: `paths` has {path!r}; expected recorded paths: {known}.")
        if len(trace[path]) != 1:
            raise ConfigError(
                f"{owner}: `trace` has {len(trace[path])} calls at {path!r}; expected one. Record one pass."
            )
        shape = trace[path][0].rows(torch.tensor([0])).shape
        sizes.add((trace[path][0].T, shape[-1]))
    if len(sizes) > 1 or any(T != S for T, S in sizes):
        raise ConfigError(
            f"{owner}: `paths` has layers of sizes {sorted(sizes)}; expected self-attention over the same "
            "positions. Name the layers of one stack in `paths`."
        )
    return chosen

"""The layers of the Transformer: attention and a feed-forward network, each inside a residual connection.

    FFN(x) = max(0, x W_1 + b_1) W_2 + b_2                              (equation 2)
    x ← LayerNorm(x + Dropout(Sublayer(x)))                            post-norm, as printed (section 3.1)
    x ← x + Dropout(Sublayer(LayerNorm(x)))                            pre-norm (Xiong et al. 2020)

    paper           here
    N layers        Encoder, Decoder
    MultiHead       attention        of the encoder
                    self_attention, source_attention     of the decoder
    W_1 W_2 b_1 b_2 feed_forward.W_1, .W_2

LayerNorm normalises one position; BatchNorm, its alternative, one feature over all words of a batch:

    LayerNorm: μ, σ over the features of a position       BatchNorm: μ, σ over the batch's positions

Its statistics ignore padding. In training, they make a word's output depend on later words; at evaluation the
running averages replace them, and it does not. Measured: it learns, then fails at lengths whose statistics
differ from the average (docs/log.md).

Vaswani et al. Attention is all you need. 2017. https://arxiv.org/abs/1706.03762
Ba, Kiros, Hinton. Layer normalization. 2016. https://arxiv.org/abs/1607.06450
Ioffe, Szegedy. Batch normalization. 2015. https://arxiv.org/abs/1502.03167
Xiong et al. On layer normalization in the Transformer architecture. 2020. https://arxiv.org/abs/2002.04745
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import paths
from regard.attention.cache import Cache
from regard.attention.history import History
from regard.attention.in_order import InOrder
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead
from regard.attention.parts import is_own
from regard.attention.result import AttentionResult
from regard.attention.source import Source
from regard.kernels.training.residual import Closing

Sublayer = Callable[[Tensor], Tensor]


class FeedForward(nn.Module):
    """The same two-layer network at every position.

    Dropout between the two layers is not in the paper; its authors' later code and PyTorch's module have it.
    """

    def __init__(self, dim: int, hidden: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.W_1 = nn.Linear(dim, hidden)
        self.W_2 = nn.Linear(hidden, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) -> (..., dim)."""
        hidden = F.relu(self.W_1(x))
        return self.W_2(self.dropout(hidden) if self.training else hidden)


class LayerNorm(nn.LayerNorm):
    """(a - μ) / σ · g + b, with μ and σ over the position's own features; ignores `valid`."""

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class BatchNorm(nn.Module):
    """The same with μ and σ per feature over the batch's valid positions; running averages at evaluation."""

    mean: Tensor
    variance: Tensor

    def __init__(self, dim: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("variance", torch.ones(dim))

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """(B, T, dim), (B, T) bool -> (B, T, dim)."""
        mean, variance = self._statistics(x, valid) if self.training else (self.mean, self.variance)
        return (x - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias

    def _statistics(self, x: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        counted = torch.ones(x.shape[:-1], device=x.device) if valid is None else valid.float()
        x, counted = x.float(), counted[..., None]  # sums over a whole batch need full precision
        every = tuple(range(x.ndim - 1))
        count = counted.sum().clamp(min=1.0)
        mean = (x * counted).sum(every) / count
        variance = ((x - mean).square() * counted).sum(every) / count
        with torch.no_grad():
            self.mean.lerp_(mean.to(self.mean.dtype), self.momentum)
            unbiased = variance * (count / (count - 1).clamp(min=1.0))  # Var[x] of algorithm 2, line 10
            self.variance.lerp_(unbiased.to(self.variance.dtype), self.momentum)
        return mean, variance


class PostNorm(nn.Module):
    """Norm(x + Dropout(Sublayer(x))), as in the paper."""

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = norm, nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Sublayer, valid: Tensor | None = None) -> Tensor:
        change = sublayer(x)
        if self.training:
            plain = is_own(self.norm, LayerNorm) and is_own(self.dropout, nn.Dropout)
            call = Closing(x, change, self.norm, self.dropout, plain)
            path = paths.choose("residual-norm", call)
            if path is not None:
                fused: Tensor = path.run(call)
                return fused
            change = self.dropout(change)
        return self.norm(x + change, valid)


class PreNorm(nn.Module):
    """x + Dropout(Sublayer(Norm(x))): the residual path is never normalised, so no warm-up is needed."""

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = norm, nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Sublayer, valid: Tensor | None = None) -> Tensor:
        change = sublayer(self.norm(x, valid))
        return x + (self.dropout(change) if self.training else change)


Residual = Callable[[], PostNorm | PreNorm]  # creates one, with its own norm


class EncoderLayer(nn.Module):
    """Every word attends to every word, then passes through the network."""

    def __init__(self, attention: MultiHead, feed_forward: FeedForward, residual: Residual) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.around_attention, self.around_feed_forward = residual(), residual()

    def forward(self, x: Tensor, mask: Mask, valid: Tensor | None = None) -> Tensor:
        """(B, S, dim) -> (B, S, dim)."""

        def look_around(h: Tensor) -> Tensor:
            return self.attention(h, self.attention.prepare(h, mask=mask)).context

        x = self.around_attention(x, look_around, valid)
        return self.around_feed_forward(x, self.feed_forward, valid)


class Looked(NamedTuple):
    """The histories of a decoder layer's attentions; None for one that does not look back."""

    back: History | None  # over the output so far
    over: History | None  # over the source

    def select(self, rows: Tensor) -> "Looked":
        """Keep these rows of the batch, in this order."""
        return Looked(*(None if history is None else history.select(rows) for history in self))


class DecoderLayer(nn.Module):
    """Every word attends to those before it, then to the source, then passes through the network."""

    def __init__(
        self,
        self_attention: MultiHead,
        source_attention: MultiHead,
        feed_forward: FeedForward,
        residual: Residual,
    ) -> None:
        super().__init__()
        self.self_attention, self.source_attention = self_attention, source_attention
        self.feed_forward = feed_forward
        self.around_self_attention, self.around_source_attention = residual(), residual()
        self.around_feed_forward = residual()

    def forward(
        self, x: Tensor, annotations: Tensor, seen: Mask, mask: Mask, valid: Tensor | None = None
    ) -> Tensor:
        """(B, T, dim), annotations (B, S, dim) and their mask `seen` -> (B, T, dim), all at once."""
        source = self.source_attention.prepare(annotations, mask=seen)

        def look_back(h: Tensor) -> Tensor:
            return self.self_attention(h, self.self_attention.prepare(h, mask=mask)).context

        return self._pass(x, look_back, lambda h: self.source_attention(h, source).context, valid)

    def nowhere(self, source: Source, cache: Cache) -> Looked:
        """The empty histories, before the first position."""
        return Looked(_start(self.self_attention, cache.source), _start(self.source_attention, source))

    def step(self, x: Tensor, source: Source, cache: Cache, looked: Looked) -> tuple[Tensor, Cache, Looked]:
        """(B, 1, dim), the source, cache and histories -> (B, 1, dim), both including this position."""
        grown, (back, over) = cache, looked

        def look_back(h: Tensor) -> Tensor:
            nonlocal grown, back
            grown = cache.append(self.self_attention.prepare(h))
            seen = grown.source
            back = None if back is None else back.grown(seen)
            result = self.self_attention(h, seen, history=back)
            back = _after(back, result)
            return result.context

        def look_over(h: Tensor) -> Tensor:
            nonlocal over
            result = self.source_attention(h, source, history=over)
            over = _after(over, result)
            return result.context

        return self._pass(x, look_back, look_over, None), grown, Looked(back, over)

    def _pass(self, x: Tensor, look_back: Sublayer, look_over: Sublayer, valid: Tensor | None) -> Tensor:
        x = self.around_self_attention(x, look_back, valid)
        x = self.around_source_attention(x, look_over, valid)
        return self.around_feed_forward(x, self.feed_forward, valid)


def _start(heads: MultiHead, source: Source) -> History | None:
    return History.start(source) if isinstance(heads.attention, InOrder) else None


def _after(history: History | None, result: AttentionResult) -> History | None:
    return None if history is None else history.advance(result.weights)


class Encoder(nn.Module):
    """N layers; a pre-norm stack needs a final norm, since nothing else normalises its sum."""

    def __init__(self, layers: Iterable[EncoderLayer], norm: nn.Module | None = None) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm

    def forward(self, x: Tensor, mask: Mask, valid: Tensor | None = None) -> Tensor:
        """(B, S, dim) -> (B, S, dim)."""
        for layer in self.layers:
            x = layer(x, mask, valid)
        return x if self.norm is None else self.norm(x, valid)


class Decoder(nn.Module):
    """N layers, with a final norm as in the encoder."""

    def __init__(self, layers: Iterable[DecoderLayer], norm: nn.Module | None = None) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm

    @property
    def stack(self) -> Sequence[DecoderLayer]:
        """The layers with their type, which a ModuleList does not have."""
        return cast("Sequence[DecoderLayer]", self.layers)

    def prepare(self, annotations: Tensor, mask: Mask) -> tuple[Source, ...]:
        """(B, S, dim) the encoder's output -> the keys and values of each layer, projected once."""
        return tuple(layer.source_attention.prepare(annotations, mask=mask) for layer in self.stack)

    def empty(self, annotations: Tensor, mask: Mask) -> tuple[Cache, ...]:
        """The caches of each layer before the first position; `mask` is that of the self-attention."""
        nothing = annotations[:, :0]
        return tuple(Cache.of(layer.self_attention.prepare(nothing), mask) for layer in self.stack)

    def nowhere(self, sources: Sequence[Source], caches: Sequence[Cache]) -> tuple[Looked, ...]:
        """The empty histories of each layer, before the first position."""
        layers = zip(self.stack, sources, caches, strict=True)
        return tuple(layer.nowhere(source, cache) for layer, source, cache in layers)

    def forward(
        self, x: Tensor, annotations: Tensor, seen: Mask, mask: Mask, valid: Tensor | None = None
    ) -> Tensor:
        """(B, T, dim), annotations (B, S, dim) and their mask `seen` -> (B, T, dim), all at once."""
        for layer in self.layers:
            x = layer(x, annotations, seen, mask, valid)
        return x if self.norm is None else self.norm(x, valid)

    def step(
        self, x: Tensor, sources: Sequence[Source], caches: Sequence[Cache], looked: Sequence[Looked]
    ) -> tuple[Tensor, tuple[Cache, ...], tuple[Looked, ...]]:
        """(B, 1, dim) -> (B, 1, dim), the caches one position longer, and the new histories."""
        grown, further = [], []
        for layer, source, cache, before in zip(self.stack, sources, caches, looked, strict=True):
            x, cache, after = layer.step(x, source, cache, before)
            grown.append(cache)
            further.append(after)
        return x if self.norm is None else self.norm(x), tuple(grown), tuple(further)

"""One step of a Transformer's decoder, in as many calls as it has operations.

`Decoder.step` is the reference: it composes modules, so that any score, norm and kernel fits and everything
can be recorded. At one position a step, that costs a good part of the time. Here the same equations run on a
flat list of weights, gathered once a batch, for the decoder that the paper prints: scaled dot products,
softmax, layer norm. `gather` says None for every other; and while somebody listens to an attention, the
modules run. On a GPU fewer calls are fewer kernels, which is what a captured step (regard/decode/captured.py)
spends its time on.

    post-norm   x ← LayerNorm(x + Sublayer(x))                          (section 3.1)
    pre-norm    x ← x + Sublayer(LayerNorm(x))

Vaswani et al. Attention is all you need. 2017. https://arxiv.org/abs/1706.03762
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import paths
from regard.attention.cache import Cache
from regard.attention.compose import Attention
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead
from regard.attention.normalizers.softmax import Softmax
from regard.attention.parts import foreign, named
from regard.attention.scores.dot import DotScore
from regard.attention.source import Source
from regard.attention.trace import is_recorded
from regard.kernels.product.product_step import ProductStep
from regard.layers.transformer import (
    Decoder,
    DecoderLayer,
    FeedForward,
    LayerNorm,
    Looked,
    PostNorm,
    PreNorm,
)

Affine = tuple[Tensor, Tensor | None]  # a matrix and its bias
Norm = tuple[Sequence[int], Tensor, Tensor, float]  # the arguments of layer_norm behind the first
ALL = Mask()
PRINTED = (  # the parts that are called at a step, of the decoder that the paper prints
    *(MultiHead, Attention, DotScore, Softmax, FeedForward),
    *(PostNorm, PreNorm, LayerNorm, nn.Linear, nn.Dropout, nn.ModuleList),
)


class _Layer(NamedTuple):
    heads: int
    scale: float
    source_scale: float
    W_QKV: Affine  # one above the other
    W_O: Affine
    source_W_Q: Affine
    source_W_O: Affine
    W_1: Affine
    W_2: Affine
    norms: tuple[Norm, Norm, Norm]


class Stepper(NamedTuple):
    """The decoder's weights, flat."""

    layers: tuple[_Layer, ...]
    pre: bool
    last: Norm | None
    attentions: tuple[Attention, ...]  # whose place it takes
    hooks: tuple[Mapping[int, Any], ...]  # of all parts; empty when the weights were gathered

    def listening(self) -> bool:
        """Somebody records an attention, or has put a hook on a part: then the modules must run."""
        return any(self.hooks) or any(is_recorded(each) for each in self.attentions)

    def step(
        self, x: Tensor, sources: Sequence[Source], caches: Sequence[Cache], looked: tuple[Looked, ...]
    ) -> tuple[Tensor, tuple[Cache, ...], tuple[Looked, ...]]:
        """(R, 1, dim) -> (R, 1, dim), and the caches one position longer; what `Decoder.step` gives.

        Dot products do not look back, so `looked` has nothing to say.
        """
        x, grown, pre = x[:, 0], [], self.pre
        for layer, source, cache in zip(self.layers, sources, caches, strict=True):
            first, second, third = layer.norms
            h, cache = _look_back(layer, F.layer_norm(x, *first) if pre else x, cache)
            x = x + h if pre else F.layer_norm(x + h, *first)
            h = _look_over(layer, F.layer_norm(x, *second) if pre else x, source)
            x = x + h if pre else F.layer_norm(x + h, *second)
            h = F.linear(F.layer_norm(x, *third) if pre else x, *layer.W_1)
            h = F.linear(h.relu_(), *layer.W_2)
            x = x + h if pre else F.layer_norm(x + h, *third)
            grown.append(cache)
        return (x if self.last is None else F.layer_norm(x, *self.last))[:, None], tuple(grown), looked


def _look_back(layer: _Layer, h: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
    """(R, dim) the words, what was written before them -> (R, dim), with them."""
    R = h.shape[0]
    query, keys, values = F.linear(h, *layer.W_QKV).view(R, 3, layer.heads, 1, -1).unbind(1)
    cache = cache.append(Source(keys, values, ALL))
    seen = cache.source
    call = ProductStep(query[:, :, 0], seen.keys, seen.values, None, 1, layer.scale)
    path = paths.choose("product-step", call) if h.is_cuda else None
    if path is not None:
        context = path.run(call)
    else:
        context = F.scaled_dot_product_attention(query, seen.keys, seen.values, scale=layer.scale)
    return F.linear(context.reshape(R, -1), *layer.W_O), cache


def _look_over(layer: _Layer, h: Tensor, source: Source) -> Tensor:
    """(R, dim) the words, the source of each; hypotheses that share a source ask it together."""
    R, mask = h.shape[0], source.mask.dense
    query = F.linear(h, *layer.source_W_Q).view(R, layer.heads, -1)
    if h.is_cuda:
        seen = None if mask is None else mask.expand(len(source.keys), 1, 1, source.S)[:, 0, 0]
        call = ProductStep(query, source.keys, source.values, seen, source.copies, layer.source_scale)
        if (path := paths.choose("product-step", call)) is not None:
            return F.linear(path.run(call).view(R, -1), *layer.source_W_O)
    context = F.scaled_dot_product_attention(
        query.view(R // source.copies, source.copies, layer.heads, -1).transpose(1, 2),
        source.keys,
        source.values,
        attn_mask=mask,
        scale=layer.source_scale,
    )  # (B, H, copies, D)
    return F.linear(context.transpose(1, 2).reshape(R, -1), *layer.source_W_O)


class Steps(NamedTuple):
    """The steps of a decoder that are to come."""

    decoder: Decoder
    sources: Sequence[Source]
    caches: Sequence[Cache]


class FastDecoder:
    """The step of the decoder that the paper prints, from a flat list of its weights."""

    name = "fast-decoder"

    def refuses(self, call: Steps) -> str | None:
        if torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling():
            return "gradients, autocast on a CPU or a compiled graph are wanted"
        if not all(_is_dense(source) for source in call.sources):
            return (
                "a source is on neither a CPU in float32 nor a GPU, or its queries see different parts of it"
            )
        if any(cache.mask.window is not None for cache in call.caches):
            return "the decoder looks back through a window"
        parts = _parts(call.decoder)
        part = foreign(parts, *PRINTED)
        if part is not None:
            return f"a part is {named(part)}, which runs itself"
        if any(part.training for part in parts):
            return "the decoder is in training"
        attentions = _attentions(call.decoder)
        if any(attention.window is not None or attention.kernel != "auto" for attention in attentions):
            return "an attention has a window, or a kernel that was asked for"
        return None

    def run(self, call: Steps) -> Stepper:
        layers, last = _layers(call.decoder), call.decoder.norm
        return Stepper(
            tuple(_flat(layer) for layer in layers),
            isinstance(layers[0].around_feed_forward, PreNorm),
            _norm(last) if isinstance(last, LayerNorm) else None,
            tuple(_attentions(call.decoder)),
            tuple(
                hooks
                for part in _parts(call.decoder)
                for hooks in (part._forward_hooks, part._forward_pre_hooks)
            ),
        )


FAST_DECODER = FastDecoder()
paths.register("decoder-step", FAST_DECODER)


def gather(decoder: Decoder, sources: Sequence[Source], caches: Sequence[Cache]) -> Stepper | None:
    """The decoder's weights for its steps from here, or None where only its modules can take them."""
    call = Steps(decoder, sources, caches)
    path = paths.choose("decoder-step", call)
    return None if path is None else path.run(call)


def _layers(decoder: Decoder) -> list[DecoderLayer]:
    return [layer for layer in decoder.layers if isinstance(layer, DecoderLayer)]


def _parts(decoder: Decoder) -> list[nn.Module]:
    return [part for part in decoder.modules() if type(part) not in (Decoder, DecoderLayer)]


def _attentions(decoder: Decoder) -> list[Attention]:
    return [
        heads.attention
        for layer in _layers(decoder)
        for heads in (layer.self_attention, layer.source_attention)
    ]


def _is_dense(source: Source) -> bool:
    """On a CPU in float32 or on a GPU, with a mask that is the same for each query of a row."""
    mask, keys = source.mask, source.keys
    known = mask.lengths is None and not mask.is_by_query
    where = keys.is_cuda or (keys.is_cpu and keys.dtype == torch.float32)
    return known and where and keys.ndim == 4


def _flat(layer: DecoderLayer) -> _Layer:
    own, other, network = layer.self_attention, layer.source_attention, layer.feed_forward
    residuals = (layer.around_self_attention, layer.around_source_attention, layer.around_feed_forward)
    first, second, third = (_norm(each.norm) for each in residuals)
    return _Layer(
        own.heads,
        _scale(own),
        _scale(other),
        _above_one_another(own.W_Q, own.W_K, own.W_V),
        _affine(own.W_O),
        _affine(other.W_Q),
        _affine(other.W_O),
        _affine(network.W_1),
        _affine(network.W_2),
        (first, second, third),
    )


def _scale(heads: MultiHead) -> float:
    score, normalizer = heads.attention.score, heads.attention.normalizer
    assert isinstance(score, DotScore)
    assert isinstance(normalizer, Softmax)
    return score.factor(heads.W_Q.out_features // heads.heads) / normalizer.temperature


def _above_one_another(*parts: nn.Linear) -> Affine:
    """Several products with one input as a single one."""
    biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
    return _cast(torch.cat([part.weight for part in parts]), torch.cat(biases) if biases else None)


def _affine(linear: nn.Linear) -> Affine:
    return _cast(linear.weight, linear.bias)


def _cast(weight: Tensor, bias: Tensor | None) -> Affine:
    """As autocast would cast them at every step, here once."""
    if not (weight.is_cuda and torch.is_autocast_enabled("cuda")):
        return weight, bias
    dtype = torch.get_autocast_dtype("cuda")
    return weight.to(dtype), None if bias is None else bias.to(dtype)


def _norm(norm: nn.Module) -> Norm:
    assert isinstance(norm, LayerNorm)
    return norm.normalized_shape, norm.weight, norm.bias, norm.eps

"""One step of a Transformer's decoder, with one call per operation.

`Decoder.step` is the reference: it composes modules, so that any score, norm and kernel fits and everything
can be recorded. At one position per step, that costs a good part of the time. Here the same equations run on
a flat list of weights, gathered once per batch, for the decoder of the paper: scaled dot products, softmax,
layer norm. For any other, `gather` returns None; and while an attention is recorded, the modules run. On a
CPU the step is one call (regard/kernels/decoder/decoder_cpu.py). On a GPU fewer calls mean fewer kernels,
which dominate the time of a captured step (regard/decode/captured.py).

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
from regard.attention.numerics import lowered
from regard.attention.parts import foreign, named
from regard.attention.scores.dot import DotScore
from regard.attention.source import Source
from regard.attention.trace import is_recorded
from regard.kernels.decoder import decoder_cpu
from regard.kernels.decoder.decoder_cpu import (
    Affine,
    DecoderWeights,
    LayerWeights,
    Norm,
    PackedDecoder,
    Written,
)
from regard.kernels.product.product_step import ProductStep
from regard.layers.transformer import Decoder, DecoderLayer, FeedForward, LayerNorm, PostNorm, PreNorm

Caches = tuple[Cache, ...] | Written  # of all layers
ALL = Mask()
PRINTED = (  # the parts that a step calls, in the decoder of the paper
    *(MultiHead, Attention, DotScore, Softmax, FeedForward),
    *(PostNorm, PreNorm, LayerNorm, nn.Linear, nn.Dropout, nn.ModuleList),
)


class Stepper(NamedTuple):
    """The decoder's weights: flat, for a step in PyTorch operations, or packed, for a step in one call."""

    weights: DecoderWeights | PackedDecoder
    attentions: tuple[Attention, ...]
    hooks: tuple[Mapping[int, Any], ...]  # of all parts; all were empty when the weights were gathered

    @staticmethod
    def of(call: "Steps", weights: DecoderWeights | PackedDecoder) -> "Stepper":
        """The stepper, with what tells whether somebody listens."""
        parts = [*_parts(call.decoder), call.readout]
        hooks = (hooks for part in parts for hooks in (part._forward_hooks, part._forward_pre_hooks))
        return Stepper(weights, tuple(_attentions(call.decoder)), tuple(hooks))

    def listening(self) -> bool:
        """Whether an attention is recorded or a part has a hook, so that the modules must run."""
        return any(self.hooks) or any(is_recorded(each) for each in self.attentions)

    def step(self, x: Tensor, sources: Sequence[Source], caches: Caches) -> tuple[Tensor, Caches]:
        """(R, dim) words -> (R, V) log-probabilities of the next, and the caches one position longer."""
        if isinstance(self.weights, PackedDecoder):
            written = caches if isinstance(caches, Written) else Written.of(caches)
            return self.weights.step(x, sources, written)
        layers, heads, pre, last, readout = self.weights
        grown = []
        for layer, source, cache in zip(layers, sources, as_caches(caches, heads), strict=True):
            first, second, third = layer.norms
            h, cache = _self_attention(layer, heads, _normal(x, first) if pre else x, cache)
            x = x + h if pre else _normal(x + h, first)
            h = _cross_attention(layer, heads, _normal(x, second) if pre else x, source)
            x = x + h if pre else _normal(x + h, second)
            h = F.linear(_normal(x, third) if pre else x, *layer.W_1)
            h = F.linear(h.relu_(), *layer.W_2)
            x = x + h if pre else _normal(x + h, third)
            grown.append(cache)
        x = x if last is None else _normal(x, last)
        return F.linear(x, *readout).log_softmax(-1), tuple(grown)


def as_caches(caches: Caches, heads: int) -> tuple[Cache, ...]:
    """The caches in the form that the modules use."""
    return caches.caches(heads) if isinstance(caches, Written) else caches


def select(caches: Caches, rows: Tensor) -> Caches:
    """Keep these rows of the batch, in this order; rows may repeat."""
    if isinstance(caches, Written):
        return caches.select(rows)
    return tuple(cache.select(rows) for cache in caches)


def _normal(x: Tensor, norm: Norm) -> Tensor:
    weight, bias, eps = norm
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def _self_attention(layer: LayerWeights, heads: int, h: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
    """Self-attention: (R, dim) the words, the cache -> (R, dim), the cache including them."""
    R = h.shape[0]
    query, keys, values = F.linear(h, *layer.W_QKV).view(R, 3, heads, 1, -1).unbind(1)
    cache = cache.append(Source(keys, values, ALL))
    seen = cache.source
    call = ProductStep(query[:, :, 0], seen.keys, seen.values, None, 1, layer.scale)
    path = paths.choose("product-step", call) if h.is_cuda else None
    if path is not None:
        context = path.run(call)
    else:
        context = F.scaled_dot_product_attention(query, seen.keys, seen.values, scale=layer.scale)
    return F.linear(context.reshape(R, -1), *layer.W_O), cache


def _cross_attention(layer: LayerWeights, heads: int, h: Tensor, source: Source) -> Tensor:
    """Cross-attention: (R, dim) the words, their source -> (R, dim); batches rows that share a source."""
    R, mask = h.shape[0], source.mask.dense
    query = F.linear(h, *layer.source_W_Q).view(R, heads, -1)
    if h.is_cuda:
        seen = None if mask is None else mask.expand(len(source.keys), 1, 1, source.S)[:, 0, 0]
        call = ProductStep(query, source.keys, source.values, seen, source.copies, layer.source_scale)
        if (path := paths.choose("product-step", call)) is not None:
            return F.linear(path.run(call).view(R, -1), *layer.source_W_O)
    context = F.scaled_dot_product_attention(
        query.view(R // source.copies, source.copies, heads, -1).transpose(1, 2),
        source.keys,
        source.values,
        attn_mask=mask,
        scale=layer.source_scale,
    )  # (B, H, copies, D)
    return F.linear(context.transpose(1, 2).reshape(R, -1), *layer.source_W_O)


class Steps(NamedTuple):
    """A request to run the next steps of a decoder."""

    decoder: Decoder
    readout: nn.Linear  # gives the scores of the next word
    sources: Sequence[Source]
    caches: Sequence[Cache]


class FastDecoder:
    """The step of the paper's decoder, from a flat list of its weights."""

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
        parts = [*_parts(call.decoder), call.readout]
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
        return Stepper.of(call, _weights(call))


class CompiledDecoder:
    """The same step on a CPU, in one call."""

    name = "decoder-cpu"

    def refuses(self, call: Steps) -> str | None:
        if not all(source.keys.is_cpu for source in call.sources):
            return "a source is not on a CPU"
        reason = FAST_DECODER.refuses(call)
        return reason if reason or decoder_cpu.compiled() is not None else decoder_cpu.NO_COMPILER

    def run(self, call: Steps) -> Stepper:
        weights = (x for part in (call.decoder, call.readout) for x in part.parameters())
        packed = decoder_cpu.packed(call.decoder, weights, lambda loops: PackedDecoder(_weights(call), loops))
        return Stepper.of(call, packed)


FAST_DECODER = FastDecoder()
paths.register("decoder-step", CompiledDecoder())
paths.register("decoder-step", FAST_DECODER)


def gather(
    decoder: Decoder, readout: nn.Linear, sources: Sequence[Source], caches: Sequence[Cache]
) -> Stepper | None:
    """The decoder's weights for its next steps, or None if only its modules can run them."""
    call = Steps(decoder, readout, sources, caches)
    path = paths.choose("decoder-step", call)
    return None if path is None else path.run(call)


def _parts(decoder: Decoder) -> list[nn.Module]:
    return [part for part in decoder.modules() if type(part) not in (Decoder, DecoderLayer)]


def _attentions(decoder: Decoder) -> list[Attention]:
    return [
        heads.attention for layer in decoder.stack for heads in (layer.self_attention, layer.source_attention)
    ]


def _is_dense(source: Source) -> bool:
    """Whether it is on a CPU in float32 or on a GPU, with the same mask for all queries of a row."""
    mask, keys = source.mask, source.keys
    known = mask.lengths is None and not mask.is_by_query
    where = keys.is_cuda or (keys.is_cpu and keys.dtype == torch.float32)
    return known and where and keys.ndim == 4


def _weights(call: Steps) -> DecoderWeights:
    layers, last = call.decoder.stack, call.decoder.norm
    return DecoderWeights(
        tuple(_flat(layer) for layer in layers),
        layers[0].self_attention.heads,
        isinstance(layers[0].around_feed_forward, PreNorm),
        _norm(last) if isinstance(last, LayerNorm) else None,
        _affine(call.readout),
    )


def _flat(layer: DecoderLayer) -> LayerWeights:
    own, other, network = layer.self_attention, layer.source_attention, layer.feed_forward
    residuals = (layer.around_self_attention, layer.around_source_attention, layer.around_feed_forward)
    first, second, third = (_norm(each.norm) for each in residuals)
    return LayerWeights(
        _concatenated(own.W_Q, own.W_K, own.W_V),
        _affine(own.W_O),
        _affine(other.W_Q),
        _affine(other.W_O),
        _affine(network.W_1),
        _affine(network.W_2),
        (first, second, third),
        _scale(own),
        _scale(other),
    )


def _scale(heads: MultiHead) -> float:
    score, normalizer = heads.attention.score, heads.attention.normalizer
    assert isinstance(score, DotScore)
    assert isinstance(normalizer, Softmax)
    return score.factor(heads.W_Q.out_features // heads.heads) / normalizer.temperature


def _concatenated(*parts: nn.Linear) -> Affine:
    """Several layers with one input, concatenated into a single product."""
    biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
    bias = lowered(torch.cat(biases)) if biases else None
    return lowered(torch.cat([part.weight for part in parts])), bias


def _affine(linear: nn.Linear) -> Affine:
    return lowered(linear.weight), None if linear.bias is None else lowered(linear.bias)


def _norm(norm: nn.Module) -> Norm:
    assert isinstance(norm, LayerNorm)
    return norm.weight, norm.bias, norm.eps

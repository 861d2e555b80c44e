"""Converts PyTorch's own modules: the result has the same weights and gives the same outputs.

    multi_head_from(torch.nn.MultiheadAttention)     -> MultiHead
    encoder_from(torch.nn.TransformerEncoder)        -> Encoder
    decoder_from(torch.nn.TransformerDecoder)        -> Decoder
    both_from(torch.nn.Transformer)                  -> Encoder, Decoder

    torch.nn                    here
    in_proj_weight, _bias       W_Q, W_K, W_V       stacked there, three matrices here
    out_proj                    W_O
    linear1, linear2            feed_forward.W_1, .W_2
    norm1 …, norm_first         around_….norm, PostNorm or PreNorm

A boolean mask of PyTorch is True where attention is forbidden; a Mask here is True where it is allowed. The
batch axis comes first here, whatever `batch_first`. Dtype, device and training mode are kept. Feed-forward
layers and norms here always have biases; if PyTorch's module has none, they start at zero.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.multihead import MultiHead
from regard.attention.scores.dot import DotScore
from regard.errors import ConfigError
from regard.layers.transformer import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    PostNorm,
    PreNorm,
)


def multi_head_from(module: nn.MultiheadAttention) -> MultiHead:
    """MultiHead with the weights of nn.MultiheadAttention."""
    _expect("multi_head_from", "module", module, nn.MultiheadAttention)
    if module.bias_k is not None or module.add_zero_attn:
        raise ConfigError(
            "multi_head_from: `module` has add_bias_kv or add_zero_attn; expected neither. "
            "They add a key that has no position."
        )
    attention = Attention(DotScore(), dropout=module.dropout)
    moved = MultiHead(
        module.embed_dim,
        module.num_heads,
        attention=attention,
        dim_keys=module.kdim,
        dim_values=module.vdim,
        bias=module.in_proj_bias is not None,
    ).to(module.out_proj.weight)
    stacked = module.in_proj_weight
    separate = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    weights = separate if stacked is None else stacked.chunk(3)
    biases = [None] * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    for mine, weight, bias in zip((moved.W_Q, moved.W_K, moved.W_V), weights, biases, strict=True):
        _fill(mine, weight, bias)
    _fill(moved.W_O, module.out_proj.weight, module.out_proj.bias)
    return moved.train(module.training)


def encoder_from(module: nn.TransformerEncoder) -> Encoder:
    """Convert the encoder's layers and its final norm, if it has one."""
    owner = "encoder_from"
    _expect(owner, "module", module, nn.TransformerEncoder)
    layers = [_encoder_layer(owner, layer) for layer in module.layers]
    return Encoder(layers, _last_norm(owner, module)).train(module.training)


def decoder_from(module: nn.TransformerDecoder) -> Decoder:
    """Convert the decoder's layers and its final norm, if it has one."""
    owner = "decoder_from"
    _expect(owner, "module", module, nn.TransformerDecoder)
    layers = [_decoder_layer(owner, layer) for layer in module.layers]
    return Decoder(layers, _last_norm(owner, module)).train(module.training)


def both_from(module: nn.Transformer) -> tuple[Encoder, Decoder]:
    """Encoder and decoder of nn.Transformer, which has no embeddings and no output matrix."""
    _expect("both_from", "module", module, nn.Transformer)
    return encoder_from(module.encoder), decoder_from(module.decoder)


def _encoder_layer(owner: str, layer: Any) -> EncoderLayer:
    _expect(owner, "layers", layer, nn.TransformerEncoderLayer)
    moved = EncoderLayer(multi_head_from(layer.self_attn), _feed_forward(owner, layer), _residual(layer))
    like = layer.linear1.weight
    moved.around_attention.norm = _norm(owner, layer.norm1, like)
    moved.around_feed_forward.norm = _norm(owner, layer.norm2, like)
    return moved


def _decoder_layer(owner: str, layer: Any) -> DecoderLayer:
    _expect(owner, "layers", layer, nn.TransformerDecoderLayer)
    moved = DecoderLayer(
        multi_head_from(layer.self_attn),
        multi_head_from(layer.multihead_attn),
        _feed_forward(owner, layer),
        _residual(layer),
    )
    like = layer.linear1.weight
    moved.around_self_attention.norm = _norm(owner, layer.norm1, like)
    moved.around_source_attention.norm = _norm(owner, layer.norm2, like)
    moved.around_feed_forward.norm = _norm(owner, layer.norm3, like)
    return moved


def _feed_forward(owner: str, layer: Any) -> FeedForward:
    relu = layer.activation in (F.relu, torch.relu) or isinstance(layer.activation, nn.ReLU)
    if not relu:
        name = getattr(layer.activation, "__name__", type(layer.activation).__name__)
        raise ConfigError(f"{owner}: `activation` has {name}; expected relu, as in the paper.")
    first = layer.linear1
    moved = FeedForward(first.in_features, first.out_features, dropout=layer.dropout.p).to(first.weight)
    _fill(moved.W_1, layer.linear1.weight, layer.linear1.bias)
    _fill(moved.W_2, layer.linear2.weight, layer.linear2.bias)
    return moved


def _residual(layer: Any) -> Callable[[], PostNorm | PreNorm]:
    kind = PreNorm if layer.norm_first else PostNorm
    return lambda: kind(nn.Identity(), layer.dropout1.p)  # the caller sets the norm


def _norm(owner: str, norm: Any, like: Tensor) -> LayerNorm:
    _expect(owner, "norm", norm, nn.LayerNorm)
    moved = LayerNorm(norm.normalized_shape, eps=norm.eps).to(like)
    _fill(moved, norm.weight, norm.bias)
    return moved


def _last_norm(owner: str, module: nn.TransformerEncoder | nn.TransformerDecoder) -> LayerNorm | None:
    return None if module.norm is None else _norm(owner, module.norm, next(module.parameters()))


def _fill(mine: nn.Linear | LayerNorm, weight: Tensor | None, bias: Tensor | None) -> None:
    """Copy what the module has; a missing gain stays 1, a missing bias becomes 0."""
    with torch.no_grad():
        if weight is not None:
            mine.weight.copy_(weight)
        if mine.bias is not None:
            mine.bias.zero_() if bias is None else mine.bias.copy_(bias)


def _expect(owner: str, name: str, found: object, kind: type[nn.Module]) -> None:
    if not isinstance(found, kind):
        raise ConfigError(f"{owner}: `{name}` has {type(found).__name__}; expected torch.nn.{kind.__name__}.")

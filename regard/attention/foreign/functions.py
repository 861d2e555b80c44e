"""The attention functions that can be recorded: where each is found, and what its arguments mean.

A reader has the signature of its function. It returns what the call was given or, if that cannot be
recorded, a sentence that says why. A reader that fails never breaks the call.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.foreign.seen import (
    EVERYTHING,
    Adjust,
    AnySeen,
    Bias,
    RecordedResult,
    Seen,
    SeenPacked,
)
from regard.attention.keep import Rows
from regard.attention.mask import Mask
from regard.attention.numerics import is_lowered

CAUSAL = Mask(causal=True)
Reader = Callable[..., AnySeen | str]


class Function(NamedTuple):
    """A module attribute that is patched during a recording."""

    module: str  # looked up in sys.modules; nothing is imported for it
    name: str
    kernel: str
    read: Reader
    head_axis: int = -3  # in its output: (B, H, T, D), or -2 for (B, T, H, D)
    packed: bool = False  # its output is (T, H, D), sequences concatenated


def read_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Seen | str:
    """torch.nn.functional.scaled_dot_product_attention; its causal mask is aligned at the upper left."""
    if query.is_nested:
        return "it was called with nested tensors. Give it padded ones and a mask"
    mask, adjusts = _mask_of(attn_mask)
    if is_causal:
        mask = CAUSAL if mask is EVERYTHING else mask & CAUSAL
    return Seen(query, key, value, scale, mask, adjusts, dropout_p, lowered_by(query))


def later_sdpa(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    versions: list[int],
    out: Tensor,
) -> RecordedResult:
    """Build the result of a deferred call."""
    seen = read_sdpa(query, key, None, attn_mask, dropout_p, is_causal, scale)
    assert isinstance(seen, Seen)
    seen.lowered = None if out.dtype == query.dtype else out.dtype  # autocast lowered the inputs
    return RecordedResult(seen, out, "sdpa", versions=versions)


def read_flex(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Any = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: Any = None,
    training: bool = False,
) -> Seen:
    """torch.nn.attention.flex_attention.flex_attention, and transformers' function around it."""
    from regard.attention.foreign.flex import block_masked, modified

    adjusts: list[Adjust] = [] if score_mod is None else [partial(modified, mod=score_mod)]
    if block_mask is not None:
        adjusts.append(partial(block_masked, mask=block_mask))
    return Seen(query, key, value, scale, EVERYTHING, tuple(adjusts), 0.0, lowered_by(query))


def read_native_heads(*given: Any) -> SeenPacked:
    """The fast path of nn.MultiheadAttention, for self-attention only."""
    inputs, _, _, width, heads, weight, bias, _, _, mask, _, _, mask_type = given  # by position
    weight, bias = (x.detach()[: 2 * width].clone() for x in (weight, bias))
    return SeenPacked(inputs, weight, bias, heads, mask, mask_type)


def read_native_layer(*given: Any) -> SeenPacked:
    """The fast path of nn.TransformerEncoderLayer."""
    inputs, width, heads, weight, bias, _, _, _, norm_first, eps, *rest = given
    norm = (rest[0].detach().clone(), rest[1].detach().clone(), eps) if norm_first else None
    mask, mask_type = rest[-2:]
    weight, bias = (x.detach()[: 2 * width].clone() for x in (weight, bias))
    return SeenPacked(inputs, weight, bias, heads, mask, mask_type, norm)


def read_flash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Seen:
    """flash_attn_func: (B, T, H, D); causal masks and windows are aligned at the lower right."""
    query, keys, values = (x.transpose(-2, -3) for x in (q, k, v))
    T, S = query.shape[-2], keys.shape[-2]
    offset = S - T
    left, right = window_size
    window = None if left < 0 and right < 0 else (S if left < 0 else left, S if right < 0 else right)
    adjusts: list[Adjust] = [partial(capped, cap=softcap)] if softcap else []
    if alibi_slopes is not None:
        adjusts.append(partial(with_alibi, slopes=alibi_slopes, offset=offset))
    mask = Mask(causal=causal, window=window, offset=offset if causal or window else 0)
    return Seen(query, keys, values, softmax_scale, mask, tuple(adjusts), dropout_p)


def read_flash_qkv(qkv: Tensor, *given: Any, **named: Any) -> Seen:
    """flash_attn_qkvpacked_func: (B, T, 3, H, D)."""
    q, k, v = qkv.unbind(-3)
    return read_flash(q, k, v, *given, **named)


def read_flash_kv(q: Tensor, kv: Tensor, *given: Any, **named: Any) -> Seen:
    """flash_attn_kvpacked_func: (B, T, H, D) and (B, S, 2, H, D)."""
    k, v = kv.unbind(-3)
    return read_flash(q, k, v, *given, **named)


def read_flash_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
) -> Seen | str:
    """flash_attn_varlen_func: concatenated sequences, (T, H, D); each attends only to itself."""
    if block_table is not None or alibi_slopes is not None:
        return "it was called with paged keys or ALiBi over packed sequences. Unpack the batch, or use sdpa"
    query, keys, values = (x.transpose(-2, -3)[None] for x in (q, k, v))
    adjusts: list[Adjust] = [partial(capped, cap=softcap)] if softcap else []
    starts = cu_seqlens_q, cu_seqlens_k
    adjusts.append(partial(in_sequences, starts=starts, causal=causal, window=window_size))
    return Seen(query, keys, values, softmax_scale, EVERYTHING, tuple(adjusts), dropout_p)


def read_flash_cache(*_: Any, **__: Any) -> str:
    """flash_attn_with_kvcache updates its cache in place."""
    return "flash_attn_with_kvcache keeps its keys in a cache that it changes. Run the model on sdpa"


def read_xformers(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Any = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: Any = None,
    output_dtype: torch.dtype | None = None,
) -> Seen | str:
    """xformers.ops.memory_efficient_attention: (B, T, D) or (B, T, H, D)."""
    if query.ndim > 4:
        return "it was called with groups of heads, (B, T, G, H, D). Give it (B, T, H, D)"
    q, k, v = (x if x.ndim == 3 else x.transpose(-2, -3) for x in (query, key, value))
    adjusts: list[Adjust] = []
    if isinstance(attn_bias, Tensor):
        adjusts.append(Bias(attn_bias))
    elif attn_bias is not None:
        adjusts.append(partial(materialized, bias=attn_bias, shape=(*q.shape[:-1], k.shape[-2])))
    return Seen(q, k, v, scale, EVERYTHING, tuple(adjusts), p)


def capped(scores: Tensor, rows: Rows, cap: float) -> Tensor:
    """c · tanh(score / c)."""
    return cap * torch.tanh(scores / cap)


def with_alibi(scores: Tensor, rows: Rows, slopes: Tensor, offset: int) -> Tensor:
    """-slope · |t + offset - s|, with a slope for each head, (H,) or (B, H)."""
    t = _targets(scores, rows) + offset
    s = torch.arange(scores.shape[-1], device=scores.device)
    slopes = slopes.to(scores.device)[..., None, None]
    return scores - rows.cut(slopes * (t[:, None] - s).abs())


def in_sequences(
    scores: Tensor, rows: Rows, starts: tuple[Tensor, Tensor], causal: bool, window: tuple[int, int]
) -> Tensor:
    """Hide other sequences; within each apply causality and the window. `starts` (N + 1,) of both sides."""
    t = _targets(scores, rows)
    s = torch.arange(scores.shape[-1], device=scores.device)
    starts_q, starts_k = (x.to(scores.device).long() for x in starts)
    of_t, of_s = (torch.bucketize(x, y[1:], right=True) for x, y in ((t, starts_q), (s, starts_k)))
    # positions relative to the end of their sequences, where these are aligned
    ahead = (s - starts_k[of_s + 1]) - (t - starts_q[of_t + 1])[:, None]
    left, right = window
    visible = of_t[:, None] == of_s
    visible = visible & (ahead <= 0) if causal else visible
    visible = visible & (ahead >= -left) if left >= 0 else visible
    visible = visible & (ahead <= right) if right >= 0 else visible
    return scores.masked_fill(~visible, -torch.inf)


def materialized(scores: Tensor, rows: Rows, bias: Any, shape: tuple[int, ...]) -> Tensor:
    """An attention bias of xformers added to the scores, whose `shape` (..., T, S) is of the whole call."""
    return scores + rows.cut(bias.materialize(shape, dtype=scores.dtype, device=scores.device))


def _targets(scores: Tensor, rows: Rows) -> Tensor:
    """(T,) the positions of the queries."""
    if rows.queries is not None:
        return rows.queries.to(scores.device)
    return torch.arange(scores.shape[-2], device=scores.device)


def _mask_of(mask: Tensor | None) -> tuple[Mask, tuple[Adjust, ...]]:
    """A Mask for a boolean tensor, true where visible; a Bias for numbers that are added to the scores."""
    if mask is None:
        return EVERYTHING, ()
    if mask.dtype == torch.bool:
        return Mask(dense=mask), ()
    return EVERYTHING, (Bias(mask),)


def lowered_by(query: Tensor) -> torch.dtype | None:
    """The dtype to which autocast casts the inputs inside a function; None if it does not."""
    return torch.get_autocast_dtype(query.device.type) if is_lowered(query) else None


FLASH_HOMES = ("flash_attn", "flash_attn.flash_attn_interface")
FLASH = (
    ("flash_attn_func", read_flash),
    ("flash_attn_qkvpacked_func", read_flash_qkv),
    ("flash_attn_kvpacked_func", read_flash_kv),
    ("flash_attn_with_kvcache", read_flash_cache),
)
FUNCTIONS = (
    Function("torch.nn.functional", "scaled_dot_product_attention", "sdpa", read_sdpa),
    Function("torch", "_native_multi_head_attention", "native", read_native_heads),
    Function("torch", "_transformer_encoder_layer_fwd", "native", read_native_layer),
    Function("torch.nn.attention.flex_attention", "flex_attention", "flex", read_flex),
    Function(
        "transformers.integrations.flex_attention", "compile_friendly_flex_attention", "flex", read_flex
    ),
    *(Function(home, name, "flash", read, -2) for home in FLASH_HOMES for name, read in FLASH),
    *(Function(home, "flash_attn_varlen_func", "flash", read_flash_varlen, -2, True) for home in FLASH_HOMES),
    Function("xformers.ops", "memory_efficient_attention", "xformers", read_xformers, -2),
    Function("xformers.ops.fmha", "memory_efficient_attention", "xformers", read_xformers, -2),
)

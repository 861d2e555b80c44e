"""Runs Hugging Face's transformers on regard's mechanisms and kernels.

    register()
    model = AutoModel.from_pretrained(name, attn_implementation="regard")
    model(**batch, output_attentions=True).attentions           # without falling back to eager

    register("regard-sparsemax", normalizer=Sparsemax())        # another mechanism, for any architecture
    model = AutoModel.from_config(config, attn_implementation="regard-sparsemax")

    traced = trace_text(model, tokenizer, "a sentence")         # tokens, and record(model)'s trace

The name is registered twice: for the attention function and for the function that makes its mask. Without
the second, transformers makes no mask, and a decoder would see the future.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.display import html_of
from regard.attention.foreign.seen import Bias, RecordedResult, Seen
from regard.attention.mask import Mask
from regard.attention.normalizers.base import Normalizer
from regard.attention.record import record
from regard.attention.result import AttentionResult
from regard.attention.scores.base import Score
from regard.attention.scores.dot import DotScore
from regard.attention.source import Source
from regard.attention.trace import Trace, leave, unwatched
from regard.attention.windows.base import Window
from regard.errors import ConfigError, check_part


@dataclass(frozen=True, eq=False)
class Mechanism:
    """An attention function for transformers; None is the architecture's own: scaled dot and softmax."""

    name: str
    score: Score | None = None
    normalizer: Normalizer | None = None
    window: Window | tuple[int, int] | None = None

    @property
    def is_plain(self) -> bool:
        """True for scaled dot product and softmax over everything that the mask shows."""
        return self.score is None and self.normalizer is None and self.window is None

    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        position_bias: Tensor | None = None,
        **named: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """(B, H, T, D), (B, H or fewer, S, D) -> (B, T, H, D), and weights (B, H, T, S) if asked for."""
        for unknown in ("softcap", "s_aux", "cache"):
            if named.get(unknown) is not None:
                raise ConfigError(
                    f"{self.name}: `{unknown}` has {type(named[unknown]).__name__}; expected None. "
                    f"{type(module).__name__} needs an attention that regard does not compute."
                )
        T, S = query.shape[-2], key.shape[-2]
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        mask, bias = _mask_of(attention_mask, causal and attention_mask is None and T > 1)
        if mask.causal and S > T:  # a static cache being filled: later positions are empty
            key, value = key[..., :T, :], value[..., :T, :]
            position_bias = None if position_bias is None else position_bias[..., :T]
        if position_bias is not None:
            bias = position_bias if bias is None else bias + position_bias
        groups = query.shape[-3] // key.shape[-3]
        if groups > 1:
            key, value = (x.repeat_interleave(groups, -3) for x in (key, value))
        result = unwatched(self._attend, query, key, value, mask, bias, dropout, scaling, bool(causal))
        result = leave(module, result)
        weights = result.weights.to(query.dtype) if _weights_wanted(named) else None
        return result.context.transpose(1, 2).contiguous(), weights

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask,
        bias: Tensor | None,
        dropout: float,
        scaling: float | None,
        causal: bool,
    ) -> AttentionResult:
        T, S = query.shape[-2], key.shape[-2]
        if bias is not None and self.is_plain and not torch.compiler.is_compiling():
            # PyTorch's kernel with the bias as its mask; weights on demand
            dense = mask.to_dense(T, S, ndim=query.ndim, device=query.device)
            added = (bias if dense is None else torch.where(dense, bias, -torch.inf)).to(query.dtype)
            context = F.scaled_dot_product_attention(query, key, value, added, dropout, scale=scaling)
            seen = Seen(query, key, None, scaling, mask, (Bias(bias),), dropout)
            return RecordedResult(seen, context, "sdpa")
        score = DotScore(scaling) if self.score is None else self.score
        window = self.window
        if isinstance(window, tuple):
            mask, window = mask & Mask(window=window), None
        if causal and (mask.window is not None or window is not None):
            mask = mask.at(_first_position(mask, T, S))
        attention = Attention(
            score if bias is None else _Biased(score, bias),
            normalizer=self.normalizer,
            window=window,
            dropout=dropout,
            kernel="auto" if bias is None else "reference",
        )
        attention.train(dropout > 0)
        return attention(query, Source(score.prepare(key), value, mask))


def _first_position(mask: Mask, T: int, S: int) -> int:
    """The position of the first of T causal queries among S keys; a static cache has later, empty ones."""
    if mask.dense is None or T == S:
        return S - T
    visible = mask.dense[..., -1, :].flatten(0, -2).any(0)  # to the last query, whose own key is the last
    return int(visible.nonzero().max()) + 1 - T


class _Biased(Score):
    """A score plus a bias, such as T5's for positions."""

    def __init__(self, score: Score, bias: Tensor) -> None:
        super().__init__()
        self.score, self.bias = score, bias

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.score(query, keys) + self.bias


def _mask_of(mask: Tensor | None, causal: bool) -> tuple[Mask, Tensor | None]:
    """A mask for transformers' boolean tensor, true where visible; a bias for numbers that are added."""
    if mask is None:
        return Mask(causal=causal), None
    return (Mask(dense=mask), None) if mask.dtype == torch.bool else (Mask(), mask)


def _weights_wanted(named: dict[str, Any]) -> bool:
    """True if the model was called with output_attentions, which not every architecture passes down."""
    from transformers.utils import output_capturing

    collector: Any = output_capturing._active_collector
    collected = collector.get() or {}
    return bool(named.get("output_attentions")) or any(key.endswith("attentions") for key in collected)


def register(
    name: str = "regard",
    *,
    score: Score | None = None,
    normalizer: Normalizer | None = None,
    window: Window | tuple[int, int] | None = None,
) -> None:
    """Register regard's attention with transformers, as `attn_implementation=name`.

    `score`, `normalizer` and `window` replace the mechanism; `window` is a Window, or (left, right), the
    positions around the query's own. All layers share them, so they must have no parameters.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    for part, found, kind in (("score", score, Score), ("normalizer", normalizer, Normalizer)):
        if found is not None:
            check_part("register", part, found, (kind,), "Give an instance, such as Sparsemax().")
        if found is not None and next(found.parameters(), None) is not None:
            raise ConfigError(
                f"register: `{part}` has parameters, in {type(found).__name__}; expected none, since all "
                "layers share it. To learn them, write an architecture with a regard.MultiHead in each layer."
            )
    AttentionInterface.register(name, Mechanism(name, score, normalizer, window))
    AttentionMaskInterface.register(name, sdpa_mask)


class TracedText(NamedTuple):
    """A model's run on one text."""

    trace: Trace
    tokens: list[str]  # of the source, or of everything that a decoder has read and written
    target_tokens: list[str] | None  # of an encoder-decoder's target
    output: Any  # what the model, or its `generate`, returned

    def _repr_html_(self) -> str:
        return html_of(self, f"What a model did with: {' '.join(self.tokens)}")


def trace_text(
    model: Any, tokenizer: Any, text: str, *, target: str | None = None, **options: Any
) -> TracedText:
    """Run the model on one text and record its attention; `options` are those of `record`.

    An encoder-decoder is forced to write `target`; without one, it writes its own by `generate`.
    """
    encoded = tokenizer(text, return_tensors="pt").to(model.device)
    tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"][0])
    translates = bool(model.config.is_encoder_decoder)
    if target is not None and not translates:
        raise ConfigError(
            f"trace_text: `target` has {target!r}; expected None, since {type(model).__name__} has no "
            "separate decoder."
        )
    written: Tensor | None = None
    with torch.no_grad(), record(model, **options) as trace:
        if not translates:
            output = model(**encoded)
        elif target is None:
            output = model.generate(**encoded)
            written = output
        else:
            labels = tokenizer(text_target=target, return_tensors="pt")["input_ids"].to(model.device)
            written = model.prepare_decoder_input_ids_from_labels(labels=labels)
            output = model(**encoded, decoder_input_ids=written)
    targets = None if written is None else tokenizer.convert_ids_to_tokens(written[0])
    return TracedText(trace, tokens, targets, output)

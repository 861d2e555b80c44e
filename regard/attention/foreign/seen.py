"""What another library's attention function was given, and the weights that follow from it.

    weights = softmax(adjust(scale · q kᵀ) + mask)          in float32 where the inputs are half precision

Query and keys are held by reference (projection weights of a fast path are copied); nothing is computed
until the result is read. Its weights come from regard's own DotScore, Mask and Softmax, so a fully masked
row has weights of zero, whatever the kernel does with it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.dispatch import Call
from regard.attention.keep import Keep, Rows, version_of
from regard.attention.looks import look, unprepared
from regard.attention.mask import Mask
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import times, upcast
from regard.attention.result import Alignment, AttentionResult
from regard.attention.scores.dot import DotScore
from regard.attention.top_k import largest
from regard.errors import ConfigError

SOFTMAX = Softmax()


EVERYTHING, ALL_ROWS = Mask(), Rows()
Adjust = Callable[[Tensor, Rows], Tensor]  # scores (..., T, S) of these rows -> the adjusted scores


@dataclass(eq=False, slots=True)
class Seen:
    """A product of query and keys; keys may have fewer heads, each shared by a group of the query's."""

    query: Tensor  # (..., H, T, D)
    keys: Tensor  # (..., H or fewer, S, D)
    values: Tensor | None = None  # held only for gradients
    scale: float | None = None  # None: 1 / √D
    mask: Mask = field(default_factory=lambda: EVERYTHING)
    adjusts: tuple[Adjust, ...] = ()
    dropout: float = 0.0
    lowered: torch.dtype | None = None  # the dtype to which autocast cast float32, inside the function
    rows: Rows = ALL_ROWS  # the kept part of the call

    @property
    def heads(self) -> int:
        """The number of heads; 1 without a head axis."""
        return self.query.shape[-3] if self.query.ndim > 3 else 1

    def held(self) -> list[Tensor]:
        """The tensors that must not change before the weights are read."""
        parts = [self.query, self.keys]
        for part in (self.values, self.mask.dense, *self.adjusts):
            part = part.bias if isinstance(part, Bias) else part
            if isinstance(part, Tensor):
                parts.append(part)
        return parts

    def align(self, targets: Tensor | None) -> Alignment:
        """Scores and weights of the kept queries, or of those at `targets` (R,) among them."""
        rows, query, plain = self.rows, self.query, self._plain()
        if targets is None and plain is not None:
            return look(plain)
        if targets is not None:
            query = query[..., targets, :]
            rows = replace(rows, queries=targets if rows.queries is None else rows.queries[targets])
        scores: Tensor = DotScore(self.scale)(self.cast(query), self.cast(self.grouped(self.keys)))
        for adjust in self.adjusts:
            scores = adjust(scores, rows)
        visible = self._visible(rows, query)
        if visible is not None:
            scores = scores.masked_fill(~visible, -torch.inf)
        return Alignment(scores, SOFTMAX(scores))

    def top(self, k: int) -> tuple[Tensor, Tensor] | None:
        """The k largest weights, in tiles of both axes; None unless this is a masked product of all rows."""
        plain = self._plain()
        return None if plain is None else largest(plain, k)

    def _plain(self) -> Call | None:
        """The same as a call of regard's; None unless this is a masked product of all rows."""
        if self.adjusts or not self.rows.is_all or (self.mask.dense is not None and self.query.ndim > 4):
            return None
        query, keys = self.cast(self.query), self.cast(self.grouped(self.keys))
        return unprepared(query, keys, self.mask, DotScore(self.scale))

    def choose(self, keep: Keep, rows: Rows) -> Self:
        """Cut to the rows to keep, on the device to keep them on."""
        device = keep.to or self.query.device
        rows = Rows(*(None if x is None else x.to(device) for x in (rows.queries, rows.heads)))
        mask, dense = self.mask, self.mask.dense
        if dense is not None:
            mask = replace(mask, dense=keep.moved_mask(dense))
        adjusts = tuple(
            Bias(keep.moved_mask(each.bias)) if isinstance(each, Bias) else each for each in self.adjusts
        )

        def of_heads(x: Tensor) -> Tensor:
            if rows.heads is None or x.shape[-3] == 1:
                return x
            group = self.heads // x.shape[-3]
            return x.index_select(-3, (rows.heads // group).to(x.device))

        return replace(
            self,
            query=keep.moved(rows.cut(self.query)),
            keys=keep.moved(of_heads(self.keys)),
            values=None if self.values is None else keep.moved(of_heads(self.values)),
            mask=mask,
            adjusts=adjusts,
            rows=rows,
        )

    def grouped(self, x: Tensor) -> Tensor:
        """(..., fewer, S, D) -> (..., H, S, D): repeat each key head for its group of query heads."""
        if x.ndim < 4 or x.shape[-3] in (1, self.heads):
            return x
        return x.repeat_interleave(self.heads // x.shape[-3], -3)

    def cast(self, x: Tensor) -> Tensor:
        """Cast the tensor as autocast did inside the function."""
        return x.to(self.lowered) if self.lowered is not None and x.dtype == torch.float32 else x

    def _visible(self, rows: Rows, query: Tensor) -> Tensor | None:
        mask = self.mask
        positions = None if rows.queries is None else rows.queries + mask.offset
        visible = mask.to_dense(
            query.shape[-2], self.keys.shape[-2], ndim=query.ndim, device=query.device, positions=positions
        )
        return visible if visible is None else Rows(None, rows.heads).cut(visible)


@dataclass(frozen=True, eq=False)
class Bias:
    """A tensor that is added to the scores, such as a float mask."""

    bias: Tensor  # broadcasts to (..., H, T, S)

    def __call__(self, scores: Tensor, rows: Rows) -> Tensor:
        return scores + upcast(rows.cut(self.bias)).to(scores.device)


@dataclass(frozen=True, eq=False)
class SeenScores:
    """The scores of a function that materializes them."""

    scores: Tensor  # (B, H, T, S), -inf where hidden
    dropout: float = 0.0

    @property
    def heads(self) -> int:
        """The number of heads."""
        return self.scores.shape[-3]

    def held(self) -> list[Tensor]:
        return [self.scores]

    def align(self, targets: Tensor | None) -> Alignment:
        scores = self.scores if targets is None else self.scores[..., targets, :]
        return Alignment(scores, SOFTMAX(upcast(scores)))

    def top(self, k: int) -> tuple[Tensor, Tensor] | None:
        """None: the whole rows are in memory already."""
        return None

    def choose(self, keep: Keep, rows: Rows) -> Self:
        return replace(self, scores=keep.moved(rows.cut(self.scores)))


@dataclass(frozen=True, eq=False)
class SeenPacked:
    """A call of PyTorch's fast path: its input, and copies of the weights that project it."""

    inputs: Tensor  # (B, T, D), or nested
    weight: Tensor  # (2 D, D) of query and key
    bias: Tensor  # (2 D,)
    heads: int
    hidden: Tensor | None = None  # true where hidden; `mask_type` tells its shape
    mask_type: int | None = None  # 0: (T, S), 1: (B, S), 2: (B, H, T, S)
    norm: tuple[Tensor, Tensor, float] | None = None  # weight, bias, eps of the norm before attention
    dropout: float = 0.0

    def held(self) -> list[Tensor]:
        return [self.inputs] if self.hidden is None else [self.inputs, self.hidden]

    def projected(self) -> Seen:
        """Project query and keys as the kernel did."""
        x, mask = self.inputs, Mask()
        if x.is_nested:
            mask = Mask(lengths=x._nested_tensor_size()[:, 0])
            x = torch.nested.to_padded_tensor(x, 0.0)
        if self.norm is not None:
            weight, bias, eps = self.norm
            x = F.layer_norm(x, x.shape[-1:], weight, bias, eps)
        query, keys = F.linear(x, self.weight, self.bias).chunk(2, -1)
        if self.hidden is not None:
            visible = ~self.hidden.bool()
            mask = Mask(dense=visible[:, None, None, :] if self.mask_type == 1 else visible)
        query, keys = (torch.unflatten(x, -1, (self.heads, -1)).transpose(-2, -3) for x in (query, keys))
        return Seen(query, keys, mask=mask)


AnySeen = Seen | SeenScores | SeenPacked


class RecordedResult(AttentionResult):
    """The result of a recorded call of another library, with the interface of regard's own results."""

    __slots__ = ("_out", "_versions", "seen")

    # methods in place of the functions that the base class takes: every layer of a model makes one of these
    def __init__(
        self,
        seen: AnySeen,
        context: Tensor,
        kernel: str,
        *,
        out: Tensor | None = None,
        versions: list[int] | None = None,
    ) -> None:
        self.seen, self.context, self.kernel = seen, context, kernel
        self._out = out  # the function's output, whose gradient is retained; None without gradients
        self._versions = list(map(version_of, seen.held())) if versions is None else versions
        self._alignment = self._log_probability = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Drop the versions: the tensors of a copied or unpickled result start their own counts."""
        return RecordedResult, (self._unchanged(), self.context, self.kernel)

    def _multiplied(self) -> int:
        return max(map(Tensor.numel, self.seen.held()))

    def _align(self, targets: Tensor | None) -> Alignment:
        return self._projected().align(targets)

    def _top(self, k: int) -> tuple[Tensor, Tensor] | None:
        return self._projected().top(k)

    def _projected(self) -> Seen | SeenScores:
        seen = self._unchanged()
        return seen.projected() if isinstance(seen, SeenPacked) else seen

    def _unchanged(self) -> AnySeen:
        """The call; ConfigError if one of its tensors has changed since."""
        if list(map(version_of, self.seen.held())) != self._versions:
            raise ConfigError(
                f"AttentionResult: `query`, `keys` or `mask` of {self.kernel!r} has changed in place since "
                'the call; expected no change. Read the weights earlier, or copy: record(model, to="cpu").'
            )
        return self.seen

    @property
    def dropout(self) -> float:
        """The dropout rate of the call; `weights` are those before dropout."""
        return self.seen.dropout

    def choose(self, keep: Keep) -> "RecordedResult":
        """The kept part of the result."""
        seen = self._projected()
        rows = keep.rows(self.T, seen.heads)
        of_context = rows if isinstance(self.seen, Seen) else Rows(rows.queries)  # others join their heads
        context = keep.moved(of_context.cut(self.context))
        return RecordedResult(seen.choose(keep, rows), context, self.kernel)

    @property
    def weight_gradients(self) -> Tensor:
        """(..., T, S) the gradient of the loss with respect to the weights: that of the context times Vᵀ.

        Needs `record(model, gradients=True)` and a backward pass.
        """
        seen, out = self._unchanged(), self._out
        if out is None or not isinstance(seen, Seen) or seen.values is None:
            raise ConfigError(
                f"AttentionResult: `weight_gradients` has no values, from {self.kernel!r}; expected "
                "record(model, gradients=True), and a call that was given query, key and value."
            )
        if out.grad is None:
            raise ConfigError(
                "AttentionResult: `weight_gradients` has no gradient; expected a backward pass before "
                "it is read, through a context that requires a gradient."
            )
        gradient = out.grad if out.ndim == self.context.ndim else out.grad[None]
        gradient = gradient if gradient.shape == self.context.shape else gradient.transpose(-2, -3)
        with torch.no_grad():
            return times(gradient, seen.grouped(seen.values).mT)

"""The result of attention: the context at once; scores, weights, rows and top-k on access."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.attention.display import html_of
from regard.errors import ConfigError, ShapeError, check_whole, shown

NUMBERS = 2**25  # elements in memory while a block of rows is computed


class Alignment(NamedTuple):
    """Scores, and the weights computed from them, before dropout."""

    scores: Tensor  # (..., T, S); -inf where hidden
    weights: Tensor  # (..., T, S)


class _Lazy:
    def __init__(self, scores: Callable[[], Tensor], weights: Callable[[], Tensor]) -> None:
        self._scores, self._weights = scores, weights

    @cached_property
    def scores(self) -> Tensor:
        return self._scores()

    @cached_property
    def weights(self) -> Tensor:
        return self._weights()


def on_demand(scores: Callable[[], Tensor], weights: Callable[[], Tensor]) -> Alignment:
    """An Alignment that computes scores and weights on first access."""
    return cast(Alignment, _Lazy(scores, weights))


class AttentionResult:
    """The context, and everything else on demand.

        attention = Attention(DotScore())
        result = attention(torch.randn(2, 5, 16), attention.prepare(torch.randn(2, 9, 16)))
        result.context                            # (2, 5, 16), computed by result.kernel
        result.weights                            # (2, 5, 9), computed on first access
        result.rows(torch.tensor([0, -1]))        # (2, 2, 9), two queries only
        weights, positions = result.top(3)        # (2, 5, 3) each

    A fused kernel never builds the T × S weights; the reference recomputes them on first access. `rows` and
    `top` compute only what they return, and `top` needs no whole row if each score depends on one key alone.
    The weights are those of the call, even if parameters or autocast have changed since. A result keeps its
    inputs alive; read it before they are changed in place.
    """

    __slots__ = ("_align", "_alignment", "_log_probability", "_numbers", "_top", "context", "kernel")

    def __init__(
        self,
        context: Tensor,
        *,
        kernel: str,
        align: Callable[[Tensor | None], Alignment],
        alignment: Alignment | None = None,
        log_probability: Callable[[Alignment], Tensor] | None = None,
        top: Callable[[int], tuple[Tensor, Tensor] | None] | None = None,
        numbers: int = 1,
    ) -> None:
        self.context = context  # (..., T, Dv)
        self.kernel = kernel  # "reference" or the fused kernel that ran
        self._align = align
        self._alignment = alignment
        self._log_probability = log_probability
        self._top = top
        self._numbers = numbers

    def with_context(self, context: Tensor) -> "AttentionResult":
        """The same alignment with another context, for a projection after attention."""
        return AttentionResult(
            context,
            kernel=self.kernel,
            align=self._align,
            alignment=self._alignment,
            log_probability=self._log_probability,
            top=self._top,
            numbers=self._multiplied(),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles store the weights, since what would compute them cannot be copied."""
        return looked_at, (self.context, self.kernel, self.scores, self.weights)

    @property
    def T(self) -> int:
        """The number of queries."""
        return self.context.shape[-2]

    @property
    def has_weights(self) -> bool:
        """Whether the weights are already computed, so that reading them costs nothing."""
        return self._alignment is not None

    @property
    def weights(self) -> Tensor:
        """(..., T, S) the alignment, before dropout."""
        return self._full().weights

    @property
    def scores(self) -> Tensor:
        """(..., T, S) the normalizer's input; -inf where hidden. Pointer losses read this."""
        return self._full().scores

    @property
    def log_probability(self) -> Tensor:
        """(..., T) log-probability of a hard normalizer's choice; REINFORCE uses its gradient."""
        if self._log_probability is None:
            raise ConfigError("AttentionResult: `log_probability` needs a hard normalizer, such as Hard.")
        return self._log_probability(self._full())

    def rows(self, targets: Tensor) -> Tensor:
        """(R,) query positions -> (..., R, S); only these rows are computed."""
        if not isinstance(targets, Tensor):
            raise ShapeError(f"AttentionResult.rows: `targets` has {shown(targets)}; expected a tensor (R,).")
        fits = targets.ndim == 1 and not targets.dtype.is_floating_point and targets.dtype != torch.bool
        if not fits:
            raise ShapeError(
                f"AttentionResult.rows: `targets` has shape {tuple(targets.shape)} and dtype "
                f"{targets.dtype}; expected (R,) whole numbers."
            )
        targets, T = targets.long(), self.T
        if not torch.compiler.is_compiling():
            for outside in targets[(targets < -T) | (targets >= T)].tolist():
                raise ShapeError(f"AttentionResult.rows: `targets` has {outside}; expected {-T} to {T - 1}.")
        targets = torch.where(targets < 0, targets + T, targets)  # -1 is the last, as in indexing
        return self._some(targets.to(self.context.device))

    def _some(self, targets: Tensor) -> Tensor:
        if self._alignment is not None:
            return self._alignment.weights[..., targets, :]
        return self._look(targets).weights

    def _look(self, targets: Tensor | None) -> Alignment:
        if torch.compiler.is_compiling() or not self.context.is_inference():
            return self._align(targets)
        with torch.no_grad():  # inference tensors cannot be recorded by autograd
            return self._align(targets)

    def top(self, k: int, *, block: int | None = None) -> tuple[Tensor, Tensor]:
        """(..., T, k) largest weights and their source positions; never T × S at once.

        `block` is the number of rows computed at a time; by default as many as fit a fixed amount of memory,
        or tiles of rows where they suffice.
        """
        check_whole("AttentionResult.top", least=0, k=k)
        check_whole("AttentionResult.top", block=1 if block is None else block)
        if self._alignment is not None:
            return _largest(self._alignment.weights, k)
        # no gradients here if the call had none: autograd would save T × S tensors
        gradient = torch.is_grad_enabled() and self.context.requires_grad
        with torch.set_grad_enabled(gradient):
            # with gradients, compute whole rows: there would be too many tiles
            found = self._top(k) if self._top is not None and block is None and not gradient else None
            return found or self._best_of_blocks(k, block, gradient)

    def _best_of_blocks(self, k: int, block: int | None, gradient: bool) -> tuple[Tensor, Tensor]:
        block = max(1, min(128, NUMBERS // max(1, self._multiplied()))) if block is None else block
        again = gradient and not torch.compiler.is_compiling()  # recompute in the backward pass
        remade = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
        values = positions = torch.empty(0)
        for start in range(0, max(1, self.T), block):
            rows = slice(start, min(start + block, self.T))
            best = remade(self._best, rows, k) if again else self._best(rows, k)
            if start == 0:
                # one tensor, because many small ones would keep the memory of every block alive
                values, positions = (x.new_empty(*x.shape[:-2], self.T, k) for x in best)
            values[..., rows, :], positions[..., rows, :] = best
        return values, positions

    def _multiplied(self) -> int:
        """Elements of the keys: at most so many are multiplied for one row."""
        return self._numbers

    def _best(self, rows: slice, k: int) -> tuple[Tensor, Tensor]:
        return _largest(self._some(torch.arange(rows.start, rows.stop, device=self.context.device)), k)

    def _full(self) -> Alignment:
        if self._alignment is not None:
            return self._alignment
        alignment = self._look(None)
        # do not cache what was read without gradients (for a drawing): a loss may read it later
        if torch.is_grad_enabled() or not self.context.requires_grad:
            self._alignment = alignment
        return alignment

    def __repr__(self) -> str:
        state = "computed" if self.has_weights else "on demand"
        shape = tuple(self.context.shape)
        return f"AttentionResult(context={shape}, kernel={self.kernel!r}, weights {state})"

    def _repr_html_(self) -> str:
        return html_of(self, repr(self))


def looked_at(context: Tensor, kernel: str, scores: Tensor, weights: Tensor) -> AttentionResult:
    """A result with known scores and weights."""
    alignment = Alignment(scores, weights)
    return AttentionResult(context, kernel=kernel, align=lambda _: alignment, alignment=alignment)


def _largest(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(..., T, S) -> the k largest of each row, and their positions (..., T, k)."""
    S = weights.shape[-1]
    if k > S:
        raise ConfigError(f"AttentionResult.top: `k` has {k}; expected at most {S}, the source's length.")
    best = weights.topk(k, dim=-1)
    return best.values, best.indices

"""Additive attention on a GPU without the (T, S, D) tensor: the launches and their order.

    forward    exponentials of a and b; then for each block of rows: scores, softmax, product with the values
    backward   the same up to the weights; then d loss / d score, then the gradients of a, b and v in one pass

Blocks of rows bound the T × S part of the memory by a constant (tuning.PAIRS); the rest is linear in T + S.
All sums have a fixed order, so results are the same from run to run. Whether exponentials would leave
float32, so that the sum a + b must be formed first, is decided on the device: no value is read back.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.numerics import HALF
from regard.kernels import tuning
from regard.kernels.additive.additive_operands import Block, Operands, blocks
from regard.kernels.launching import launch
from regard.kernels.product.product_rows import full_product
from regard.kernels.shapes import side_by_side
from regard.kernels.sparsemax import sparsemax_cuda


class Rows(NamedTuple):
    """A normalizer of rows of scores (n, R, S); both functions work in place."""

    weights: Callable[[Tensor], None]  # from scores to weights
    slopes: Callable[[Tensor, Tensor, float], None]  # (weights, d loss / d weight -> d loss / d score, scale)


def _softmax(scores: Tensor) -> None:
    from regard.kernels.additive.additive_triton.scores import softmax_kernel

    S = scores.shape[-1]
    grid = (scores.numel() // S, 1, 1)
    launch(softmax_kernel, grid, (scores,), (scores,), (S,), (), (row_block(S),))


def _softmax_slopes(weights: Tensor, slopes: Tensor, scale: float) -> None:
    from regard.kernels.additive.additive_triton.gradient import slopes_kernel

    S = weights.shape[-1]
    grid = (weights.numel() // S, 1, 1)
    launch(slopes_kernel, grid, (weights,), (slopes,), (S,), (scale,), (row_block(S),))


SOFTMAX = Rows(_softmax, _softmax_slopes)
SPARSEMAX = Rows(
    lambda scores: sparsemax_cuda.write_weights(scores, scores),
    lambda weights, slopes, scale: sparsemax_cuda.write_slopes(slopes, weights, slopes, scale),
)


def forward(given: Operands, normalizer: Rows = SOFTMAX) -> Tensor:
    """The context, (N, T, Dv)."""
    call, values = Launch(given, normalizer, gradient=False), side_by_side(given.values)
    N, T, S = call.N, call.T, call.S
    context = values.new_empty(N, T, values.shape[-1])
    if N * T * S <= tuning.PAIRS:
        call.context(slice(0, N), slice(0, T), values, context)
        return context
    for items, rows in _blocks(call):
        call.context(items, rows, values[items], context[items, rows])
    return context


def backward(grad: Tensor, given: Operands, normalizer: Rows = SOFTMAX) -> tuple[Tensor, ...]:
    """Gradients of a, b, v and values; recomputes the weights block by block."""
    call, values = Launch(given, normalizer, gradient=True), given.values
    N, T, S = call.N, call.T, call.S
    if N * T * S <= tuning.PAIRS:
        found, of_values = call.slopes(slice(0, N), slice(0, T), grad, values)
        return *call.joined(found, *given[:3]), of_values.to(values.dtype)

    def slopes(items: slice, rows: slice) -> tuple[Tensor, Tensor]:
        return call.slopes(items, rows, grad[items, rows], values[items])

    grad_values = values.new_empty(values.shape)
    return *_in_blocks(call, given, slopes, grad_values), grad_values


def scores(a: Tensor, b: Tensor, v: Tensor) -> Tensor:
    """(N, T, S) float32: all scores, including the constant that the kernels leave out for softmax."""
    call = Launch(Operands(a, b, v, b), gradient=False)
    N, T, S = call.N, call.T, call.S
    if N * T * S <= tuning.PAIRS:
        found = call.scores(slice(0, N), slice(0, T))
    else:
        found = a.new_empty(N, T, S, dtype=torch.float32)
        for items, rows in _blocks(call):
            found[items, rows] = call.scores(items, rows)
    return found.add_(v.float().sum())


def scores_backward(grad: Tensor, a: Tensor, b: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a, b and v."""
    given = Operands(a, b, v, b)
    call = Launch(given, gradient=True)
    if grad.numel() <= tuning.PAIRS:
        return call.joined(grad.float().contiguous(), a, b, v)
    return _in_blocks(call, given, lambda *block: (grad[block].float().contiguous(), None), None)


def _in_blocks(
    call: "Launch",
    given: Operands,
    slopes: Callable[[slice, slice], tuple[Tensor, Tensor | None]],
    grad_values: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a, b and v from d loss / d score of each block; also fills `grad_values`."""
    a, b, v = given[:3]
    grad_a, grad_b = a.new_empty(a.shape), b.new_empty(b.shape)
    grad_v = torch.zeros(v.numel(), dtype=torch.float32, device=v.device)
    of_keys: Any = 0  # sums over the rows of an item
    of_values: Any = 0
    for items, rows in _blocks(call):
        own, mixed = slopes(items, rows)
        of_a, of_b, of_v = call.gradient(items, rows, own)
        grad_a[items, rows] = of_a
        grad_v += of_v
        of_keys, of_values = of_keys + of_b, 0 if mixed is None else of_values + mixed
        if rows.stop == call.T:
            grad_b[items] = of_keys
            if grad_values is not None:
                grad_values[items] = of_values
            of_keys = of_values = 0
    return grad_a, grad_b, grad_v.to(v.dtype).view(v.shape)


def _blocks(call: "Launch") -> Iterator[Block]:
    return blocks(call.N, call.T, call.S, tuning.PAIRS, tuning.PAD_ROWS)


class Launch:
    """The kernels of one call and their shared buffers."""

    def __init__(self, given: Operands, normalizer: Rows = SOFTMAX, *, gradient: bool) -> None:
        a, b, v = given[:3]
        self.a, self.b = side_by_side(a), side_by_side(b)
        self.facts, self.scale, self.normalizer = mask_facts(given), given.scale, normalizer
        self.N, self.T, self.D = a.shape
        self.S = b.shape[1]
        self.G = -(-self.D // 8) * 2  # groups of four features, taken two at a time
        self.full_precision = a.dtype == torch.float32
        self.assembler = has_assembler(a)
        self.strides = (*self.a.stride()[:2], *self.b.stride()[:2])
        self._expand(v, gradient)

    def _expand(self, v: Tensor, gradient: bool) -> None:
        """Compute the exponentials (N, G, padded, 4) and their reaches (N, G, spans)."""
        from regard.kernels.additive.additive_triton.expand import expand_kernel

        T = -(-self.T // tuning.PAD_ROWS) * tuning.PAD_ROWS
        S = -(-self.S // tuning.PAD_COLUMNS) * tuning.PAD_COLUMNS
        spans = [T // tuning.SPAN, S // tuning.SPAN]
        lines = self.N * self.G
        sizes = [4 * lines * T, 4 * lines * T * gradient, 4 * lines * S, 4 * self.G, 4 * self.G]
        sizes += [fours(lines * spans[0]), fours(lines * spans[1])]
        folded, A, B, weights, inverse, reach_a, reach_b, more = accumulate(sizes, initial=0)
        space = self.a.new_empty(more + self.G + 1, dtype=torch.float32)
        self.of_scores = (space, (folded, B, reach_a, reach_b, weights, inverse, more))
        self.of_gradient = (space, (A, B, weights, reach_a, reach_b))
        self.padded = (T, S)
        launch(
            *(expand_kernel, (sum(spans), -(-self.G // 8), self.N), (self.a, self.b, v.contiguous()), ()),
            (self.T, self.S, self.D, *self.strides, T, S, self.G),
            (),
            (8, gradient, not self.full_precision, self.assembler),
            inside=(space, (folded, A, B, reach_a, reach_b, weights, inverse, more)),
            warps=1,
        )

    def context(self, items: slice, rows: slice, values: Tensor, out: Tensor) -> None:
        """The context of a block with values (n, S, Dv), written into `out` (n, R, Dv)."""
        if values.dtype not in HALF or self.normalizer is not SOFTMAX:
            torch.bmm(self.normalized(items, rows).to(values.dtype), values, out=out)
            return
        from regard.kernels.additive.additive_triton.scores import mix_kernel

        n, R, S, Dv = items.stop - items.start, rows.stop - rows.start, self.S, values.shape[-1]
        parts = values.new_empty(n, R, S)
        tile = tuning.score_tile(n, R, S)
        tiles = -(-S // tile.columns)
        tops = self.a.new_empty(2, fours(n * R * tiles), dtype=torch.float32)
        totals = tops[1]
        self._score(items, rows, tile, parts, tops, totals, partial=True)
        BT, BD = tuning.mix_tile(n, R, Dv)
        launch(
            *(mix_kernel, (-(-Dv // BD), -(-R // BT), n), (values, out), (parts, tops, totals)),
            (R, S, Dv, tiles, *values.stride()[:2], *out.stride()[:2]),
            (),
            (BT, tile.columns, BD, self.assembler),
        )

    def scores(self, items: slice, rows: slice) -> Tensor:
        """The scores of a block in float32, (n, R, S), up to the constant Σ v."""
        n, R, S = items.stop - items.start, rows.stop - rows.start, self.S
        scores = self.a.new_empty(n, R, S, dtype=torch.float32)
        self._score(items, rows, tuning.score_tile(n, R, S), scores, scores, scores, partial=False)
        return scores

    def normalized(self, items: slice, rows: slice) -> Tensor:
        """The weights of a block in float32, (n, R, S); zeros in a row that sees nothing."""
        weights = self.scores(items, rows)
        self.normalizer.weights(weights)
        return weights

    def _score(self, items: slice, rows: slice, tile: tuning.Tile, *made: Tensor, partial: bool) -> None:
        """Fill `made`: scores or parts, the maxima of each tile's rows, and their sums."""
        from regard.kernels.additive.additive_triton.scores import scores_kernel

        n, R = made[0].shape[:2]
        facts, flags = self.facts
        launch(
            *(scores_kernel, (-(-self.S // tile.columns), -(-R // tile.rows), n)),
            (self.a, self.b, *facts[:2]),
            made,
            (
                *(items.start, rows.start, R, self.T, self.S, self.D, *self.padded, self.G),
                *(*self.strides, *facts[2:7]),
            ),
            (*facts[7:], self.scale),
            (*flags, *tile[:4], tuning.partial_sum(self.full_precision), partial, self.assembler),
            inside=self.of_scores,
            warps=tile.warps,
            registers=tile.registers,
        )

    def slopes(self, items: slice, rows: slice, grad: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """d loss / d score of a block (n, R, S) from grad (n, R, Dv), and grad_values, in float32."""
        weights = self.normalized(items, rows)
        of_values = full_product(weights.to(values.dtype).mT, grad)
        slopes = full_product(grad, values.mT)  # d loss / d weight, then in place d loss / d score
        self.normalizer.slopes(weights, slopes, self.scale)
        return slopes, of_values

    def joined(self, slopes: Tensor, a: Tensor, b: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of a, b and v from the whole d loss / d score, (N, T, S)."""
        from regard.kernels.additive.additive_triton.gradient import join_kernel

        N, T, S, D, G = self.N, self.T, self.S, self.D, self.G
        parts_a, parts_b, parts_v = self._parts(slice(0, N), slice(0, T), slopes)
        grads = a.new_empty(N, T, D), b.new_empty(N, S, D), v.new_empty(v.shape)
        more = parts_v if self.full_precision else slopes.sum()  # zero only up to rounding
        lines, positions, groups = tuning.JOINED
        tiles = N * -(-G // groups) * (-(-T // positions) + -(-S // positions))
        launch(
            *(join_kernel, (-(-D // 8) + tiles, 1, 1), (parts_a,), (parts_b, parts_v, more, *grads)),
            *((T, S, D, G), (N, parts_a.shape[0], parts_b.shape[0])),
            (lines, positions, groups, not self.full_precision),
        )
        return grads

    def gradient(self, items: slice, rows: slice, slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of a (n, R, D), b (n, S, D) and v (D,) from d loss / d score of a block, in float32."""
        grad_a, grad_b, grad_v = self._parts(items, rows, slopes)
        of_a = _sum(grad_a).transpose(1, 2).flatten(2)[:, : slopes.shape[1], : self.D]
        of_b = _sum(grad_b).mT[..., : self.D]
        of_v = grad_v.sum((0, 1, 2))[: self.D]
        if not self.full_precision:
            of_v = of_v + slopes.sum()  # zero only up to rounding
        return of_a, of_b, of_v

    def _parts(self, items: slice, rows: slice, slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same as partial sums, as `gradient_kernel` stores them."""
        from regard.kernels.additive.additive_triton.gradient import gradient_kernel

        n, R, S = slopes.shape
        C = tuning.gradient_columns(S)
        blocks = -(-S // (128 * C))
        part = tuning.gradient_rows(R, self.G * blocks * n, self.full_precision)
        splits = -(-R // part)
        grad_a = slopes.new_empty(blocks, n, self.G, R + R % 2, 4)
        grad_b = slopes.new_empty(splits, n, self.G * 4, S)
        grad_v = slopes.new_empty(splits, blocks, n, self.G * 4)
        sizes = (items.start, rows.start, n, R, S, self.D, *self.padded, self.G, *self.strides, part)
        for from_sums in (False, True):
            launch(
                *(gradient_kernel, (self.G, blocks * splits, n), (self.a, self.b)),
                (slopes, grad_a, grad_b, grad_v),
                *(sizes, (), (C, self.full_precision, from_sums, self.assembler)),
                inside=self.of_gradient,
                warps=1,
            )
        return grad_a, grad_b, grad_v


def _sum(parts: Tensor) -> Tensor:
    return parts[0] if parts.shape[0] == 1 else parts.sum(0)


def row_block(S: int) -> int:
    """How many elements of a row are loaded at a time: a power of two."""
    return min(4096, max(128, tuning.power_of_two(S)))


def fours(size: int) -> int:
    """The size rounded up to a multiple of four, so that the next buffer is 16-byte aligned, for `launch`."""
    return -(-size // 4) * 4


def has_assembler(x: Tensor) -> bool:
    """Whether kernels may use NVIDIA assembly; Triton's interpreter cannot."""
    return x.is_cuda and torch.version.hip is None


class Seen(NamedTuple):
    """A mask as arguments of the kernels."""

    arguments: tuple[Any, ...]  # lengths, dense, the items that share each, strides of dense, low, high
    flags: tuple[bool, bool, bool, bool]  # which of lengths, dense, low, high are present


def mask_facts(given: tuple[Any, ...]) -> Seen:
    """The mask of `Operands`: t + low <= s <= t + high, lengths, dense; `a` stands in for absent tensors."""
    a, _, _, _, lengths, dense, left, right, offset, _ = given
    strides: tuple[int, ...] = (0, 0, 0)
    if dense is not None:
        dense = dense.view(torch.uint8)
        sizes = zip(dense.shape, dense.stride(), strict=True)
        strides = tuple(0 if size == 1 else stride for size, stride in sizes)
    N = a.shape[0]  # faster than len, which matters in a decoder's step
    shares = (1 if lengths is None else N // lengths.shape[0], 1 if dense is None else N // dense.shape[0])
    low = 0 if left is None else offset - left
    high = 0 if right is None else offset + right
    tensors = a if lengths is None else lengths.contiguous(), a if dense is None else dense
    flags = (lengths is not None, dense is not None, left is not None, right is not None)
    return Seen((*tensors, *shares, *strides, low, high), flags)

"""Additive attention on a GPU without the (T, S, D) tensor: what is launched, and in which order.

    forward    exponentials of a and b; then for each block of rows: scores, softmax, product with the values
    backward   the same up to the weights; then d loss / d score, then the gradients of a, b and v in one pass

A block of rows bounds the T × S part of the memory by a constant (tuning.PAIRS); the rest is linear in T +
S. All sums have a fixed order, so results are the same from run to run. Whether exponentials would leave
float32, and the sum a + b must be formed first, is decided on the device: no value is read back.
"""

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.numerics import HALF
from regard.kernels import ops, tuning
from regard.kernels.additive import cells, operands, refuses_additive, restored
from regard.kernels.dispatch import Call

STEP = 4  # up to this many queries the weights are as small as the scores of a step, and are kept
SMALL = 2**22  # fewer cells B·T·S·D of such a step cost less than the launches


class AdditiveCUDA:
    """The reference's additive attention on an NVIDIA GPU, by Triton."""

    name = "additive-cuda"

    def refuses(self, call: Call) -> str | None:
        reason = refuses_additive(call, "cuda")
        if reason is None and call.query.shape[-2] <= STEP and cells(call) < SMALL:
            return f"a step of {cells(call)} cells is too small, the launches would cost more"
        return _missing() if reason is None else reason

    def run(self, call: Call) -> Tensor:
        arguments = operands(call)
        if call.query.shape[-2] <= STEP:
            context, _ = ops.additive_step(*arguments)
        else:
            context = ops.additive(*arguments)
        return restored(context, call)


ADDITIVE_CUDA = AdditiveCUDA()


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
@cache
def _missing() -> str | None:
    return None if find_spec("triton") else "Triton is not installed"


def forward(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    values: Tensor,
    lengths: Tensor | None,
    dense: Tensor | None,
    left: int | None,
    right: int | None,
    offset: int,
    scale: float,
) -> Tensor:
    """The context, (N, T, Dv)."""
    launch = Launch(a, b, v, lengths, dense, left, right, offset, scale)
    N, T, S = *a.shape[:2], b.shape[1]
    if N * T * S <= tuning.PAIRS:
        return torch.bmm(launch.weights(slice(0, N), slice(0, T), values.dtype), values)
    context = values.new_empty(N, T, values.shape[-1])
    for items, rows in blocks(N, T, S):
        context[items, rows] = torch.bmm(launch.weights(items, rows, values.dtype), values[items])
    return context


def backward(
    grad: Tensor,
    a: Tensor,
    b: Tensor,
    v: Tensor,
    values: Tensor,
    lengths: Tensor | None,
    dense: Tensor | None,
    left: int | None,
    right: int | None,
    offset: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of a, b, v and values: the weights are computed again, block by block."""
    N, T, S = *a.shape[:2], b.shape[1]
    launch = Launch(a, b, v, lengths, dense, left, right, offset, scale)
    if N * T * S <= tuning.PAIRS:
        of_a, of_b, of_v, of_values = launch.gradients(slice(0, N), slice(0, T), grad, values)
        return of_a.to(a.dtype), of_b.to(b.dtype), of_v.to(v.dtype), of_values.to(values.dtype)
    grad_a, grad_b, grad_values = (x.new_empty(x.shape) for x in (a, b, values))
    grad_v = torch.zeros(v.shape, dtype=torch.float32, device=v.device)
    sums: tuple[Tensor, Tensor] | None = None
    for items, rows in blocks(N, T, S):
        of_a, of_b, of_v, of_values = launch.gradients(items, rows, grad[items, rows], values[items])
        grad_a[items, rows] = of_a
        grad_v += of_v
        sums = (of_b, of_values) if sums is None else (sums[0] + of_b, sums[1] + of_values)
        if rows.stop == T:
            grad_b[items], grad_values[items] = sums
            sums = None
    return grad_a, grad_b, grad_v.to(v.dtype), grad_values


def blocks(N: int, T: int, S: int) -> Iterator[tuple[slice, slice]]:
    """Whole items while they fit the budget, else rows of one item."""
    items = max(1, tuning.PAIRS // (T * S))
    whole = tuning.PAIRS // S // tuning.PAD_ROWS * tuning.PAD_ROWS
    rows = T if T * S <= tuning.PAIRS else max(tuning.PAD_ROWS, whole)
    for n in range(0, N, items):
        for t in range(0, T, rows):
            yield slice(n, min(n + items, N)), slice(t, min(t + rows, T))


def product(x: Tensor, y: Tensor) -> Tensor:
    """x @ y, summed and returned in float32."""
    if x.is_cuda and x.dtype in HALF and x.dtype == y.dtype:
        return torch.bmm(x, y, out_dtype=torch.float32)
    return torch.bmm(x.float(), y.float())


class Launch:
    """The kernels of one call, with what they share."""

    def __init__(
        self,
        a: Tensor,
        b: Tensor,
        v: Tensor,
        lengths: Tensor | None,
        dense: Tensor | None,
        left: int | None,
        right: int | None,
        offset: int,
        scale: float,
    ) -> None:
        from regard.kernels import additive_triton

        self.kernels = additive_triton
        self.a, self.b, self.scale = a, b, scale
        self.N, self.T, self.D = a.shape
        self.S = b.shape[1]
        self.G = -(-self.D // 8) * 2  # groups of four features, taken two at a time
        self.full_precision = a.dtype == torch.float32
        self.assembler = a.is_cuda and torch.version.hip is None
        v = v.float()
        self.v = F.pad(v, (0, 4 * self.G - self.D)) if self.D % 8 else v.contiguous()
        self.facts = mask_arguments(self.N, self.v, lengths, dense, left, right, offset)
        self._expand()

    def _expand(self) -> None:
        """Exponentials (N, G, padded, 4), and how far their exponents reach, (N, G, spans)."""
        T = -(-self.T // tuning.PAD_ROWS) * tuning.PAD_ROWS
        S = -(-self.S // tuning.PAD_COLUMNS) * tuning.PAD_COLUMNS
        spans = [T // tuning.SPAN, S // tuning.SPAN]
        count = self.N * self.G
        sizes = [count * 4 * T, count * 4 * S, count * spans[0], count * spans[1]]
        space = self.a.new_empty(sum(sizes), dtype=torch.float32)
        self.A, self.B, self.reach_a, self.reach_b = torch.split(space, sizes)
        self.padded = (T, S)
        self.kernels.expand_kernel[(sum(spans), -(-self.G // 8), self.N)](
            *(self.a, self.b, self.A, self.B, self.reach_a, self.reach_b, self.T, self.S, self.D),
            *(*self.a.stride(), *self.b.stride(), T, S, self.G),
            GROUPS=8,
            num_warps=4,
        )

    def weights(self, items: slice, rows: slice, dtype: torch.dtype) -> Tensor:
        """Softmax of the scores of a block, (n, R, S); zero in a row that sees nothing."""
        n, R, S = items.stop - items.start, rows.stop - rows.start, self.S
        scores = self.a.new_empty(n, R, S, dtype=torch.float32)
        tile = tuning.score_tile(R)
        self.kernels.scores_kernel[(-(-S // tile.columns), -(-R // tile.rows), n)](
            *(self.A, self.B, self.v, self.reach_a, self.reach_b, self.a, self.b),
            *(self.facts["lengths"], self.facts["dense"], scores),
            *(items.start, rows.start, R, self.T, S, self.D, *self.padded, self.G),
            *(*self.a.stride(), *self.b.stride()),
            *self.facts["numbers"],
            self.scale,
            RT=tile.RT,
            RS=tile.RS,
            WT=tile.WT,
            WS=tile.WS,
            CHUNK=tuning.partial_sum(self.full_precision),
            **self.facts["flags"],
            SASS=self.assembler,
            num_warps=tile.warps,
            maxnreg=tile.registers,
        )
        weights = scores if dtype == torch.float32 else torch.empty_like(scores, dtype=dtype)
        self.kernels.softmax_kernel[(n * R,)](scores, weights, S, BLOCK=row_block(S), num_warps=4)
        return weights

    def gradients(
        self, items: slice, rows: slice, grad: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What the gradient of a block's context (n, R, Dv) gives to a, b, v and values, in float32."""
        weights = self.weights(items, rows, torch.float32)
        of_values = product(weights.to(values.dtype).mT, grad)
        slopes = product(grad, values.mT)  # d loss / d weight, then in place d loss / d score
        n, R, S = weights.shape
        self.kernels.slopes_kernel[(n * R,)](weights, slopes, S, self.scale, BLOCK=row_block(S), num_warps=4)
        return *self._gradient(items, rows, slopes), of_values

    def _gradient(self, items: slice, rows: slice, slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What d loss / d score of a block gives to a (n, R, D), b (n, S, D) and v (D,)."""
        n, R, S = slopes.shape
        C = tuning.gradient_columns(S)
        blocks = -(-S // (128 * C))
        part = tuning.gradient_rows(R, self.G * blocks * n, self.full_precision)
        splits = -(-R // part)
        grad_a = slopes.new_empty(blocks, n, self.G, R + R % 2, 4)
        grad_b = slopes.new_empty(splits, n, self.G * 4, S)
        grad_v = slopes.new_empty(splits, blocks, n, self.G * 4)
        for exact in (False, True):
            self.kernels.gradient_kernel[(self.G, blocks * splits, n)](
                *(self.A, self.B, self.v, self.reach_a, self.reach_b, self.a, self.b),
                *(slopes, grad_a, grad_b, grad_v),
                *(items.start, rows.start, n, R, S, self.D, *self.padded, self.G),
                *(*self.a.stride(), *self.b.stride(), part),
                C=C,
                MIDDLE=self.full_precision,
                EXACT=exact,
                SASS=self.assembler,
                num_warps=1,
            )
        of_a = _sum(grad_a).transpose(1, 2).flatten(2)[:, :R, : self.D]
        of_b = _sum(grad_b).mT[..., : self.D]
        of_v = grad_v.sum((0, 1, 2))[: self.D]
        if not self.full_precision:
            of_v = of_v + slopes.sum()  # zero only up to rounding
        return of_a, of_b, of_v


def _sum(parts: Tensor) -> Tensor:
    return parts[0] if parts.shape[0] == 1 else parts.sum(0)


def row_block(S: int) -> int:
    """How much of a row is held at a time: a power of two."""
    return min(4096, max(128, 1 << (S - 1).bit_length()))


def mask_arguments(
    N: int,
    unused: Tensor,
    lengths: Tensor | None,
    dense: Tensor | None,
    left: int | None,
    right: int | None,
    offset: int,
) -> dict[str, Any]:
    """The facts of a mask as the kernels take them; `unused` stands for a tensor that is not there."""
    strides: tuple[int, ...] = (0, 0, 0)
    if dense is not None:
        dense = dense.view(torch.uint8)
        sizes = zip(dense.shape, dense.stride(), strict=True)
        strides = tuple(0 if size == 1 else stride for size, stride in sizes)
    shares = (1 if x is None else N // x.shape[0] for x in (lengths, dense))
    return {
        "lengths": unused if lengths is None else lengths.contiguous(),
        "dense": unused if dense is None else dense,
        "numbers": (*shares, *strides, left or 0, right or 0, offset),
        "flags": {
            "HAS_LENGTHS": lengths is not None,
            "HAS_DENSE": dense is not None,
            "HAS_LEFT": left is not None,
            "HAS_RIGHT": right is not None,
        },
    }

"""The error rule: how far from float64 a fused kernel may be.

    ‖kernel - exact‖  ≤  2 ‖formula - exact‖ + ‖jittered - formula‖

    exact      the formula in float64
    formula    plain PyTorch, in the precision of the inputs: the reference
    jittered   the formula again, with the result of every operation perturbed by some roundings

It applies to the output and to each gradient. The first term alone would not do: if the formula happens to be
right to the last bit, nothing else could differ from it. The second term does not depend on such luck. It
measures the effect of rounding in this precision on this problem: it grows if the problem is ill-conditioned,
and needs no tolerance. docs/explanation/kernels.md derives the rule and says on how many problems it held.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

FACTOR = 2.0
UNITS = 8.0  # roundings per operation in float32
HALF_UNITS = 2.0  # and in half precision, where kernels compute in float32 inside
WORST = 4.0  # slack for single elements: the largest of many errors varies more than their norm
DRAWS = 8  # samples of the jitter, over all problems that are judged together
TINY = 1e-30

# operations whose results are copied or chosen, not computed
COPIES = """
    abs alias amax amin arange cat clamp clamp_max clamp_min clone constant_pad_nd copy embedding empty
    empty_like eye fill flip full full_like gather index index_put index_select lift_fresh masked_fill
    max maximum min minimum neg new_empty new_empty_strided new_full new_ones new_zeros ones ones_like
    relu repeat roll scalar_tensor scatter select_backward select_scatter sgn sign slice_backward
    slice_scatter sort stack threshold_backward topk tril triu where zeros zeros_like _unsafe_view
"""
MOVED = frozenset(COPIES.split())
PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}  # the first factor
SUMS = frozenset(("sum", "mean", "cumsum"))
BOUNDED = frozenset(("tanh", "sigmoid"))
EPS = torch.finfo(torch.float32).eps


def units_of(dtype: torch.dtype) -> float:
    """By how many roundings an operation may be off in a problem of this precision."""
    return HALF_UNITS if dtype.itemsize == 2 else UNITS


class Jittered(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Perturbs every computed number by some roundings of its own precision, up or down at random.

    - Sums (matrix products, sums) are perturbed as if rounded term by term, in float32 at least, so that the
      error stays even if the terms cancel.
    - tanh and sigmoid are perturbed as if they were 1, since kernels compute 1 - 2 / (1 + e^{2x}).
    - Weights p and their slopes p (g - Σ p g) are rounded to the precision of the problem, in which kernels
      multiply them; so is Σ p g, which kernels take from the rounded context, relative to the largest g. A
      weight is also off by the rounding of its row's largest score: kernels save log Σ exp(score) and
      recompute the weights from that one number.
    """

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seed, self.eps, self.units = seed, torch.finfo(dtype).eps, units_of(dtype)
        self.generators: dict[torch.device, torch.Generator] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = function(*args, **kwargs)
        name = function._schema.name.removeprefix("aten::")
        if name in MOVED or function.is_view or function._schema.is_mutable:
            return out
        if name == "_to_copy" and out.dtype.itemsize >= args[0].dtype.itemsize:
            return out  # a cast to fewer digits is a rounding
        if name == "_softmax":
            most = args[0].masked_fill(args[0].isinf(), 0.0).abs().amax(args[1], keepdim=True)
            return self.moved(self.moved(out, None, self.eps), out * most)
        if name == "_softmax_backward_data":
            slope, weights, dim = args[:3]
            mean = (slope * weights).sum(dim, keepdim=True)
            most = slope.masked_fill(weights == 0, 0.0).abs().amax(dim, keepdim=True)
            moved = self.moved(mean, most, self.eps)
            return self.moved(out - weights * (moved - mean), weights * slope, self.eps)
        if isinstance(out, Tensor):
            return self.moved(out, terms(name, function, args, kwargs, out))
        if isinstance(out, tuple | list):
            return type(out)(self.moved(x, None) if isinstance(x, Tensor) else x for x in out)
        return out

    def moved(self, x: Tensor, terms: Tensor | None, least: float = 0.0) -> Tensor:
        """x, perturbed by roundings of itself and of its terms, or by `least` if that is coarser."""
        if not x.is_floating_point() or x.numel() == 0:
            return x
        generator = self.generators.get(x.device)
        if generator is None:
            generator = self.generators[x.device] = torch.Generator(x.device).manual_seed(self.seed)
        eps = torch.finfo(x.dtype).eps
        wide = x if x.dtype == torch.float64 else x.float()
        size = wide.abs() * max(eps, least)
        if terms is not None:
            size += terms.abs().to(size.dtype) * max(min(eps, EPS), least)
        size.masked_fill_(~size.isfinite(), 0.0)  # a hidden score stays hidden
        signs = torch.randint(0, 2, x.shape, generator=generator, device=x.device, dtype=torch.int8)
        return (wide + size * (signs - 0.5) * self.units).to(x.dtype)  # eps is two roundings


def terms(
    name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor
) -> Tensor | None:
    """The root of the sum of squares of the terms that an operation adds up; None if it adds nothing up."""
    if name in PRODUCTS:
        a, b = (x if x.dtype == torch.float64 else x.float() for x in args[PRODUCTS[name] :][:2])
        return torch.matmul(a * a, b * b).sqrt()
    if name in SUMS and args[0].is_floating_point():
        squares = function(args[0].square(), *args[1:], **kwargs)
        # the terms of a mean are x / n: the sum of their squares is the mean of squares over n
        return (squares * (out.numel() / args[0].numel()) if name == "mean" else squares).sqrt()
    if name in BOUNDED:
        return torch.ones_like(out)
    if name == "_log_softmax_backward_data":
        slope, logs, dim = args[:3]
        return logs.exp() * slope.square().sum(dim, keepdim=True).sqrt()
    return None


Outcomes = Mapping[str, Tensor]  # the output and the gradients, by name


class Verdict(NamedTuple):
    """The rule's verdict on a kernel."""

    ratios: dict[str, float]  # for each tensor, the error as a multiple of the formula's
    shares: dict[str, float]  # the share of the jitter used beyond twice the formula's error: at most 1
    broken: str | None  # a clause; None if the rule holds

    @property
    def largest(self) -> float:
        return max(self.ratios.values())


class Errors:
    """Errors of a kernel and of its formula over one or more similar problems, and the jitter."""

    def __init__(self) -> None:
        # for each tensor: the kernel's error, the formula's, the jitter, the exact values
        self.squares: dict[str, Tensor] = {}
        self.largest: dict[str, Tensor] = {}

    def add(
        self, kernel: Outcomes, formula: Callable[[], Outcomes], exact: Outcomes, draws: int = DRAWS
    ) -> None:
        """Add a problem. `formula` is called once plain and `draws` times with jitter."""
        plain = formula()
        dtype = max((x.dtype for x in plain.values()), key=lambda dtype: torch.finfo(dtype).eps)
        jitters: dict[str, list[Tensor]] = {name: [] for name in exact}
        for seed in range(draws):
            with Jittered(seed, dtype):
                again = formula()
            for name, found in jitters.items():
                found.append(again[name].double() - plain[name].double())
        for name, want in exact.items():
            own = kernel[name].double() if name in kernel else torch.full_like(want, torch.nan)
            jitter = torch.stack(jitters[name])
            parts = (own - want, plain[name].double() - want, jitter, want)
            squares = torch.stack([x.square().sum() for x in parts])
            squares[2] /= draws
            self.squares[name] = self.squares.get(name, 0.0) + squares
            if want.numel():
                largest = torch.stack([x.abs().max() for x in parts])
                self.largest[name] = torch.maximum(largest, self.largest.get(name, largest))

    def verdict(self) -> Verdict:
        """The rule for norms; for the largest errors of single elements, with WORST times the bound."""
        ratios, shares, broken = {}, {}, None
        for name, squares in self.squares.items():
            error, own, jitter, size = squares.sqrt().tolist()
            ratios[name] = error / max(own, jitter / units_of(torch.float32), TINY)
            shares[name] = max(0.0, error - FACTOR * own) / max(jitter, TINY)
            holds = error <= FACTOR * own + jitter
            if name in self.largest:
                most, others, moved, _ = self.largest[name].tolist()
                holds = holds and most <= WORST * (FACTOR * others + moved)
            if not holds and broken is None:
                parts = [x / max(size, TINY) for x in (error, own, jitter)]
                broken = (
                    "{} is off by {:.1e} of its size, the reference by {:.1e}, its jitter is {:.1e}".format(
                        name, *parts
                    )
                )
        return Verdict(ratios, shares, broken)

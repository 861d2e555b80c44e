"""Parity first: how far a kernel's numbers are from float64, beside how far the reference's are.

A kernel may err twice as much as the reference in the same precision, root of mean squares, in the context
and in every gradient; one rounding of the answer is free, since the reference may be exactly right by luck.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.bench.problems import Problem

ALLOWED = 2.0
TINY = 1e-30


class Parity(NamedTuple):
    """Of each tensor, the error as a multiple of the reference's; and what breaks the rule."""

    ratios: dict[str, float]
    worst: str  # the name of the tensor that is farthest off
    broken: str | None  # a clause; None where the rule holds

    @property
    def largest(self) -> float:
        return self.ratios[self.worst]


def outcomes(problem: Problem, kernel: str, direction: Tensor | None) -> dict[str, Tensor]:
    """The context, and with a direction the gradients of everything it depends on."""
    context = problem.context(problem.attention(kernel))
    found = {"context": context.detach()}
    if direction is not None:
        leaves = problem.leaves()
        gradients = torch.autograd.grad(
            context, list(leaves.values()), direction.to(context.dtype), allow_unused=True
        )
        found |= {
            f"gradient of {name}": gradient
            for name, gradient in zip(leaves, gradients, strict=True)
            if gradient is not None
        }
    return found


def compare(problems: Sequence[Problem], kernel: str, *, training: bool) -> Parity:
    """The errors of a kernel against those of the reference, over several problems of one size."""
    squares: dict[str, Tensor] = {}  # of the kernel's error, of the reference's, of what is right
    for problem in problems:
        direction = torch.randn_like(problem.query) if training else None  # values are as wide as queries
        exact = problem.exact()
        with torch.set_grad_enabled(training):
            ours, theirs = (outcomes(problem, name, direction) for name in (kernel, "reference"))
            truth = outcomes(exact, "reference", direction)
        for name, want in truth.items():
            if name not in ours:
                return Parity({name: math.inf}, name, f"it has no {name}")
            squares[name] = squares.get(name, 0.0) + means(ours[name], theirs[name], want)
    numbers = {name: x.numel() for name, x in truth.items()}
    return judged(squares, numbers, problems[0].query.dtype)


def judged(
    squares: Mapping[str, Tensor], numbers: Mapping[str, int], dtype: torch.dtype, roundings: int = 1
) -> Parity:
    """The rule, for mean squares (error, the reference's error, size) of tensors of so many numbers.

    So many roundings of the answer are free: of a whole model's gradients more than of a call's.
    """
    ratios: dict[str, float] = {}
    broken = None
    for name, mean in squares.items():
        error, own, size = mean.sqrt().tolist()
        free = roundings * torch.finfo(dtype).eps * size
        # the error of a single number is a matter of luck, also over several problems
        allowed = ALLOWED * (2 if numbers[name] == 1 else 1)
        ratios[name] = error / max(own, free, TINY)
        if not error <= allowed * own + free:
            size = max(size, TINY)
            broken = f"{name} is off by {error / size:.1e} of its size, the reference by {own / size:.1e}"
    return Parity(ratios, max(ratios, key=lambda name: ratios[name]), broken)


def means(ours: Tensor, theirs: Tensor, right: Tensor) -> Tensor:
    """(3,) mean squares of the error, of the reference's error, and of what is right."""
    found = (ours.double() - right, theirs.double() - right, right)
    return torch.stack([x.square().mean() for x in found])


@torch.no_grad()
def apart(found: Tensor, expected: Tensor) -> str | None:
    """None if two results agree in half of their digits, which tells whether they mean the same."""
    error = rms(found.double() - expected.double()) / max(rms(expected.double()), 1e-30)
    if error <= torch.finfo(expected.dtype).eps ** 0.5:
        return None
    return f"other numbers: {100 * error:.2g} % away from the reference"


def rms(x: Tensor) -> float:
    """The root of the mean square."""
    return x.square().mean().sqrt().item()

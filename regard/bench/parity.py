"""Parity first: a kernel that breaks the error rule of `regard.bench.rule` is not timed."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.bench.problems import Problem
from regard.bench.rule import Errors, Verdict


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


def compare(problems: Sequence[Problem], kernel: str, *, training: bool) -> Verdict:
    """The errors of a kernel against those of the reference, over several problems of one size."""
    errors = Errors()
    for problem in problems:
        direction = torch.randn_like(problem.query) if training else None  # values are as wide as queries
        exact = problem.exact()
        with torch.set_grad_enabled(training):
            errors.add(
                outcomes(problem, kernel, direction),
                lambda problem=problem, direction=direction: outcomes(problem, "reference", direction),  # type: ignore[misc]
                outcomes(exact, "reference", direction),
                draws=2,  # with gradients, which may have few elements, there are four problems
            )
    return errors.verdict()


@torch.no_grad()
def apart(found: Tensor, expected: Tensor) -> str | None:
    """None if two results agree in half of their digits, enough to tell that they mean the same."""
    norm = torch.linalg.vector_norm
    error = (norm(found.double() - expected.double()) / norm(expected.double()).clamp_min(1e-30)).item()
    if error <= torch.finfo(expected.dtype).eps ** 0.5:
        return None
    return f"wrong result: {100 * error:.2g} % away from the reference"

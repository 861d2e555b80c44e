"""The error rule as an assertion: what every test of a kernel against its formula uses."""

from math import ceil

from regard.bench.rule import DRAWS, Errors


def named(outcomes):
    """An output and gradients by name; a list of them by place."""
    return outcomes if isinstance(outcomes, dict) else {str(i): x for i, x in enumerate(outcomes)}


def assert_rule(*problems, label="", draws=None):
    """Each problem is three functions that give an output and gradients: kernel, formula, formula in float64.

    Errors are those of all problems together; `draws` of the jitter for each, where numbers are many.
    """
    errors = Errors()
    for kernel, formula, exact in problems:
        found = {name: x.detach() for name, x in named(kernel()).items()}
        for name, x in found.items():
            assert x.isfinite().all(), (label, name)
        truth = {name: x.detach() for name, x in named(exact()).items()}
        errors.add(
            found, lambda formula=formula: named(formula()), truth, draws or ceil(DRAWS / len(problems))
        )
    broken = errors.verdict().broken
    assert broken is None, f"{label}: {broken}"

"""The five errors a user may meet, and the shape check that raises the first of them.

Every message has one form: *owner: `argument` has …; expected …. Hint.*
"""

from functools import cache

import torch
from torch import Tensor


class RegardError(Exception):
    """What every error of this package is; commands turn it into one sentence and exit status 2."""


class ShapeError(RegardError, ValueError):
    """A tensor has the wrong shape."""


class MaskError(RegardError, ValueError):
    """A mask has the wrong type, shape or meaning."""


class ConfigError(RegardError, ValueError):
    """A configuration, recipe or constructor argument cannot be used."""


class DataError(RegardError, ValueError):
    """A file, a run folder or a text cannot be read as what it should be."""


class KernelRefused(RegardError, RuntimeError):
    """A fused kernel was asked for by name and cannot run the call."""


def check_shapes(owner: str, *specs: tuple[str, Tensor, str], **known: int) -> dict[str, int]:
    """Bind the letters of each spec to sizes; raise ShapeError on the first disagreement.

    A spec is a string of axis letters, with `...` in front for any number of leading axes:
    `check_shapes("Attention", ("keys", keys, "... S Dk"), ("values", values, "... S Dv"))`.
    Nothing is checked while compiling.
    """
    if torch.compiler.is_compiling():
        return {}
    sizes = dict(known)
    for name, tensor, spec in specs:
        letters, tail, open_front = _read_spec(spec)
        shape = tensor.shape
        front = len(shape) - len(tail)
        if front < 0 or (front and not open_front):
            raise ShapeError(_message(owner, name, tuple(shape), letters, sizes))
        for letter, size in zip(tail, shape[front:], strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ShapeError(_message(owner, name, tuple(shape), letters, sizes))
    return sizes


def check_sizes(owner: str, settings: object, *names: str) -> None:
    """Raise ConfigError if a setting, or a number of one that is a list, is not 1 or more; None is passed."""
    for name in names:
        found = getattr(settings, name)
        sizes = found if isinstance(found, tuple) else () if found is None else (found,)
        if not all(size >= 1 for size in sizes):
            raise ConfigError(f"{owner}: `{name}` has {_shown(found)}; expected 1 or more.")


def check_shares(owner: str, settings: object, *names: str) -> None:
    """Raise ConfigError if a setting is not from 0 to 1; None is passed."""
    for name in names:
        found = getattr(settings, name)
        if found is not None and not 0 <= found <= 1:
            raise ConfigError(f"{owner}: `{name}` has {found}; expected 0 to 1.")


def _shown(found: object) -> object:
    return list(found) if isinstance(found, tuple) else found


@cache
def _read_spec(spec: str) -> tuple[list[str], list[str], bool]:
    """All letters of a spec, those of its last axes, and whether any number of axes may stand in front."""
    letters = spec.split()
    open_front = letters[0] == "..."
    return letters, letters[1:] if open_front else letters, open_front


def _message(owner: str, name: str, shape: tuple[int, ...], letters: list[str], sizes: dict[str, int]) -> str:
    expected = ", ".join(f"{x}={sizes[x]}" if x in sizes else x for x in letters)
    return f"{owner}: `{name}` has shape {shape}; expected ({expected})."

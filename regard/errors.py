"""The five error classes that users see, and argument checks that raise them.

Every message has one form: *owner: `argument` has …; expected …. Hint.* torch is imported only by the checks
that need it, so that the studio can show its page before torch is loaded.
"""

import math
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class RegardError(Exception):
    """Base class of all regard errors; a command prints the error and exits with status 2."""


class ShapeError(RegardError, ValueError):
    """An argument is not a tensor, or has the wrong shape, dtype or device."""


class MaskError(RegardError, ValueError):
    """A mask has the wrong type, shape or meaning."""


class ConfigError(RegardError, ValueError):
    """A configuration, recipe or constructor argument cannot be used."""


class DataError(RegardError, ValueError):
    """A file, a run folder or a text cannot be read, or has the wrong content."""


class KernelRefused(RegardError, RuntimeError):
    """A fused kernel that was requested by name cannot run the call."""


def check_shapes(owner: str, *specs: tuple[str, "Tensor", str], **known: int) -> dict[str, int]:
    """Bind the letters of each spec to sizes; raise ShapeError on the first disagreement.

    A spec is a string of axis letters, with `...` in front for any number of leading axes:
    `check_shapes("Attention", ("keys", keys, "... S Dk"), ("values", values, "... S Dv"))`.
    Nothing is checked while compiling.
    """
    import torch

    if torch.compiler.is_compiling():
        return {}
    sizes = dict(known)
    for name, tensor, spec in specs:
        letters, tail, open_front = _read_spec(spec)
        if not isinstance(tensor, torch.Tensor):
            raise ShapeError(
                f"{owner}: `{name}` has {shown(tensor)}; expected a tensor ({', '.join(letters)})."
            )
        shape = tensor.shape
        front = len(shape) - len(tail)
        if front < 0 or (front and not open_front):
            raise ShapeError(_message(owner, name, tuple(shape), letters, sizes))
        for letter, size in zip(tail, shape[front:], strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ShapeError(_message(owner, name, tuple(shape), letters, sizes))
    return sizes


def check_sizes(owner: str, settings: object, *names: str, least: int = 1) -> None:
    """Raise ConfigError if a setting, or any entry of a list setting, is below `least`; None is allowed."""
    for name in names:
        found = getattr(settings, name)
        sizes = found if isinstance(found, tuple) else () if found is None else (found,)
        if not all(size >= least for size in sizes):
            raise ConfigError(f"{owner}: `{name}` has {_shown(found)}; expected {least} or more.")


def check_range(owner: str, settings: object, low: str, high: str, least: int = 1) -> None:
    """Raise ConfigError unless `least` <= settings.low <= settings.high."""
    smallest, largest = getattr(settings, low), getattr(settings, high)
    if not least <= smallest <= largest:
        raise ConfigError(
            f"{owner}: `{low}` has {smallest} and `{high}` {largest}; expected {least} <= {low} <= {high}."
        )


def check_whole(owner: str, *, least: int = 1, **arguments: object) -> None:
    """Raise ConfigError if an argument is not a whole number, or less than `least`."""
    import torch

    for name, found in arguments.items():
        whole = isinstance(found, Integral | torch.SymInt) and not isinstance(found, bool)
        if not whole or found < least:  # type: ignore[operator]
            expected = f"{least} or more" if whole else f"a whole number, {least} or more"
            raise ConfigError(f"{owner}: `{name}` has {shown(found)}; expected {expected}.")


def check_finite(owner: str, *, above: float | None = None, **arguments: object) -> None:
    """Raise ConfigError if an argument is not a finite number, or not above `above`."""
    for name, found in arguments.items():
        fits = is_number(found) and (above is None or found > above)  # type: ignore[operator]
        if not fits:
            expected = "a finite number" if above is None else f"a finite number above {above:g}"
            raise ConfigError(f"{owner}: `{name}` has {shown(found)}; expected {expected}.")


def check_share(owner: str, **arguments: object) -> None:
    """Raise ConfigError if an argument is not a number from 0 to 1."""
    for name, found in arguments.items():
        if not is_number(found) or not 0 <= found <= 1:  # type: ignore[operator]
            raise ConfigError(f"{owner}: `{name}` has {shown(found)}; expected 0 to 1.")


def check_shares(owner: str, settings: object, *names: str) -> None:
    """check_share for attributes of `settings`; None is allowed."""
    check_share(owner, **{name: found for name in names if (found := getattr(settings, name)) is not None})


def check_part(owner: str, name: str, found: object, kinds: tuple[type, ...], hint: str) -> None:
    """Raise ConfigError if a part is not an instance of one of these classes."""
    if not isinstance(found, kinds):
        raise ConfigError(f"{owner}: `{name}` has {shown(found)}; expected {_a(kinds[0])}. {hint}")


def is_number(found: object) -> bool:
    """True for a finite real number; False for bools and tensors."""
    return isinstance(found, Real) and not isinstance(found, bool) and math.isfinite(found)


def shown(found: object) -> str:
    """A value as error messages show it: short plain values by repr, everything else by type."""
    import torch

    if isinstance(found, type):
        return f"the class {found.__name__}"
    if isinstance(found, torch.Tensor):
        return f"a tensor of shape {tuple(found.shape)}"
    plain = found is None or isinstance(found, bool | int | float | str | tuple | list)
    return repr(found) if plain and len(repr(found)) <= 40 else _a(type(found))


def _a(kind: type) -> str:
    """The class name with its article, and with its module if it is not a regard class or a builtin."""
    ours = kind.__module__.partition(".")[0] in ("regard", "builtins")
    name = kind.__name__ if ours else f"{kind.__module__}.{kind.__name__}"
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"


def check_setting(key: str, found: float, *, least: int = 0, most: float = math.inf) -> None:
    """Raise ConfigError if a numeric recipe setting `table.key` is out of range."""
    for within, expected in (
        (found >= least, f"at least {least}"),
        (found <= most, f"at most {most}"),
        (math.isfinite(found), "a finite number"),
    ):
        if not within:
            raise ConfigError(f"'{key}' is {found!r}; expected {expected}.")


def _shown(found: object) -> object:
    return list(found) if isinstance(found, tuple) else found


@cache
def _read_spec(spec: str) -> tuple[list[str], list[str], bool]:
    """All letters of a spec, the letters of its fixed last axes, and whether it starts with `...`."""
    letters = spec.split()
    open_front = letters[0] == "..."
    return letters, letters[1:] if open_front else letters, open_front


def _message(owner: str, name: str, shape: tuple[int, ...], letters: list[str], sizes: dict[str, int]) -> str:
    expected = ", ".join(f"{x}={sizes[x]}" if x in sizes else x for x in letters)
    return f"{owner}: `{name}` has shape {shape}; expected ({expected})."

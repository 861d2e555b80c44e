"""Fused paths: implementations that compute what a reference computes, in fewer passes over the data.

    register("ntm", path)              a path has a `name`, `refuses(call)` and `run(call)`
    choose("ntm", call, "auto")        the first that does not refuse; None means the reference

This file imports no path: `regard.kernels` registers its own. A path requested by name runs or raises
KernelRefused with the reason; there is no fallback, and no environment variable. `explain` tells what would
run, and why.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from regard.errors import KernelRefused, shown


class Path(Protocol):
    """A fused implementation of something that has a reference."""

    name: str

    def refuses(self, call: Any) -> str | None:
        """None: can run; otherwise the reason, as a clause."""
        ...

    def run(self, call: Any) -> Any:
        """What the reference would compute."""
        ...


P = TypeVar("P", bound=Path)


@dataclass(frozen=True)
class Explanation:
    """Which implementation would run a call, and why the others would not."""

    kernel: str  # the name of the path that would run, or "reference"
    reasons: tuple[tuple[str, str], ...]  # (path, clause) for each path that refuses, in order
    why: str = ""  # why the reference runs; empty if a path does

    def __str__(self) -> str:
        first = self.kernel if not self.why else f"{self.kernel}: {self.why}"
        return "\n".join([first, *(f"  not {kernel}: {reason}" for kernel, reason in self.reasons)])


_places: dict[str, list[Path]] = {}


def register(place: str, path: Path) -> None:
    """Add a path to a place; paths are tried in order of registration."""
    _places.setdefault(place, []).append(path)


def places() -> tuple[str, ...]:
    """Every place that has a path."""
    return tuple(_places)


def paths(place: str) -> tuple[Path, ...]:
    """The paths of a place, in order of preference."""
    return tuple(_places.get(place, ()))


def choose(place: str, call: Any, requested: str = "auto") -> Path | None:
    """The path that will run the call; None means the reference."""
    if requested != "auto":
        return choose_named(requested, paths(place), lambda path: path.refuses(call))
    for path in _places.get(place, ()):
        if path.refuses(call) is None:
            return path
    return None


def choose_named(requested: str, known: Iterable[P], refusal: Callable[[P], str | None]) -> P | None:
    """The path of that name, or None for "auto" and "reference"; raises if it is unknown or refuses."""
    for path in known:
        if path.name == requested:
            reason = refusal(path)
            if reason is not None:
                raise KernelRefused(f"kernel {requested!r} cannot run this call: {reason}.")
            return path
    check_name(requested, known)
    return None


def check_name(requested: object, known: Iterable[Path]) -> None:
    """Raise KernelRefused if no path has this name."""
    names = ["auto", "reference", *(path.name for path in known)]
    if not isinstance(requested, str) or requested not in names:
        raise KernelRefused(f"unknown kernel {shown(requested)}; known: {', '.join(names)}.")


def explain(place: str, call: Any, requested: str = "auto") -> Explanation:
    """What `choose` would return, with the reasons."""
    chosen = choose(place, call, requested)
    return explained(chosen, requested, ((path.name, path.refuses(call)) for path in paths(place)))


def explained(
    chosen: Path | None, requested: str, reasons: Iterable[tuple[str, str | None]], why: str | None = None
) -> Explanation:
    """The choice and the reasons against the others; `why` is a reason to need the reference in any case."""
    refusals = tuple((name, reason) for name, reason in reasons if reason is not None)
    if chosen is not None:
        return Explanation(chosen.name, refusals)
    distinct = dict.fromkeys(reason for _, reason in refusals)  # several may give the same reason
    why = "it was requested" if requested == "reference" else why
    return Explanation("reference", refusals, why or "; ".join(distinct))

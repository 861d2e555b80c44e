"""The recordings that are open in this thread or task, and the modules that each follows."""

from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from regard.attention.display import html_of
from regard.attention.keep import Keep
from regard.attention.result import AttentionResult
from regard.attention.summary import Summary, joined, summarized
from regard.errors import ConfigError

X = TypeVar("X")


# a call whose result is built when the trace is read: its path, the function that builds it, its arguments
Later = tuple[str, Callable[..., AttentionResult], *tuple[Any, ...]]


class Trace(MutableMapping[str, list[AttentionResult]]):
    """Module path -> the results of its calls, in order.

    `unseen` maps the module path of what could not be recorded to the reason and a remedy.
    """

    def __init__(self) -> None:
        self.unseen: dict[str, str] = {}
        self.later: deque[Later] = deque()
        self._results: dict[str, list[AttentionResult]] = {}

    @property
    def results(self) -> dict[str, list[AttentionResult]]:
        """All results so far, as a dictionary."""
        while self.later:
            path, make, *given = self.later.popleft()
            self._results.setdefault(path, []).append(make(*given))
        return self._results

    def __getitem__(self, path: str) -> list[AttentionResult]:
        return self.results[path]

    def __setitem__(self, path: str, results: list[AttentionResult]) -> None:
        self.results[path] = results

    def __delitem__(self, path: str) -> None:
        del self.results[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        return repr(self.results)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_results": self.results}  # built: nothing is deferred any more

    def summary(self) -> Summary:
        """One row per path: calls, heads, sizes, kernel, entropy, distance, share on first and last token.

        Computes every weight once, in blocks of rows. `str(trace.summary())` is a table.
        """
        return summarized(self, self.unseen)

    def steps(self, path: str) -> Tensor:
        """(..., T, S) all calls of a path as one alignment: generation with a cache gives a lower triangle.

        T counts the queries of all calls, S the source positions of the longest. If a sliding cache has
        dropped the oldest keys, the others stay in their columns.
        """
        if path not in self:
            known = ", ".join(map(repr, self)) or "none"
            raise ConfigError(f"Trace.steps: `path` has {path!r}; expected a recorded path: {known}.")
        return joined(path, self[path])

    def _repr_html_(self) -> str:
        """In a notebook: all heads; `regard.view(trace, tokens)` adds the words."""
        count = sum(map(len, self.values()))
        return html_of(self, f"Trace of {len(self)} modules, {count} calls; regard.view(trace) draws it.")


@dataclass(eq=False)
class Watcher:
    """Follows the modules of a model while a block runs."""

    paths: dict[int, str]  # of each Attention, by id: the model keeps its modules alive
    others: dict[int, str] = field(default_factory=dict)  # of all other modules, if functions are patched
    called: set[int] = field(default_factory=set)  # ids of the suspected modules that ran
    left: set[str] = field(default_factory=set)  # paths that left a result
    later: deque[Later] | None = None  # queue of deferred calls; None: build results at once
    removes: ClassVar[bool] = False  # True if it removes heads

    def add(self, path: str, result: AttentionResult) -> None:
        """Take the result of one call of the module at this path."""

    def miss(self, path: str, reason: str) -> None:
        """Note that something that the module at this path ran cannot be recorded."""

    def removed(self, path: str) -> tuple[int, ...]:
        """Heads of the module at this path whose context is set to zero."""
        return ()

    def path_of(self, module: object) -> str | None:
        """The path of the module; None if it is not followed."""
        return self.paths.get(id(module), self.others.get(id(module)))

    def close(self) -> None:
        """Stop following modules: tasks started in the block may outlive it and still have this watcher."""
        self.paths = self.others = {}
        self.later = None


W = TypeVar("W", bound=Watcher)


@dataclass(eq=False)
class Recording(Watcher):
    """Adds every result, or the part to keep, to a trace."""

    trace: Trace = field(default_factory=Trace)
    keep: Keep = field(default_factory=Keep)

    def __post_init__(self) -> None:
        keep = self.keep
        if keep.is_all and keep.layers is None and not keep.gradients:
            self.later = self.trace.later

    def add(self, path: str, result: AttentionResult) -> None:
        if self.keep.wants(path):
            self.left.add(path)
            self.trace.results.setdefault(path, []).append(self.keep.chosen(result))

    def miss(self, path: str, reason: str) -> None:
        """Note it, if it is one of the chosen layers, inside one or around one."""
        if self.keep.concerns(path):
            self.trace.unseen[path] = reason


WATCHERS: ContextVar[tuple[Watcher, ...]] = ContextVar("WATCHERS", default=())


@contextmanager
def watching(watcher: W) -> Iterator[W]:
    """The watcher follows its modules while the block runs, in this thread or task only."""
    WATCHERS.set((*WATCHERS.get(), watcher))
    try:
        yield watcher
    finally:
        WATCHERS.set(tuple(other for other in WATCHERS.get() if other is not watcher))
        watcher.close()


def unwatched(function: Callable[..., X], *given: Any, **named: Any) -> X:
    """Call the function without watchers: as in a compiled graph, nothing that it calls is recorded."""
    if torch.compiler.is_compiling():
        return function(*given, **named)
    token = WATCHERS.set(())
    try:
        return function(*given, **named)
    finally:
        WATCHERS.reset(token)


def leave(module: nn.Module, result: AttentionResult) -> AttentionResult:
    """Show the result to the module's watchers; return it without the heads that they remove."""
    for watcher in () if torch.compiler.is_compiling() else WATCHERS.get():
        path = watcher.path_of(module)
        if path is not None:
            removed = watcher.removed(path)
            if removed:
                result = result.with_context(without_heads(result.context, removed, path))
            watcher.add(path, result)
    return result


def without_heads(context: Tensor, heads: tuple[int, ...], path: str, axis: int = -3) -> Tensor:
    """(..., H, T, Dv) -> the same with zeros for these heads; a tensor without a head axis is head 0."""
    H = context.shape[axis] if context.ndim > 3 else 1
    outside = [head for head in heads if not 0 <= head < H]
    if outside:
        raise ConfigError(f"ablate: `heads` of {path!r} has {outside[0]}; expected 0 to {H - 1}.")
    if context.ndim <= 3:
        return context * 0.0
    kept = torch.ones(H, dtype=context.dtype, device=context.device)
    kept[list(heads)] = 0.0
    return context * kept.view(-1, *[1] * (-axis - 1))


def is_recorded(module: nn.Module) -> bool:
    """True if this thread or task follows the module; a compiled graph is never recorded."""
    return not torch.compiler.is_compiling() and any(id(module) in each.paths for each in WATCHERS.get())

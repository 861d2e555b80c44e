"""Attention functions of other libraries are replaced while somebody records, and put back afterwards.

The replacement asks who records in this thread or task, and calls the function as it is where nobody does.
Which module called is read from the frames of the call: no module has a hook, which would send each of its
calls through PyTorch's slow path. What is being compiled, and what a backward pass computes again, is not
recorded.
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from types import FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.foreign.functions import FUNCTIONS, Function
from regard.attention.foreign.seen import AnySeen, RecordedResult, Seen, SeenScores
from regard.attention.foreign.tree import Tree
from regard.attention.numerics import is_transformed
from regard.attention.trace import WATCHERS, Recording, Watcher, unwatched, without_heads

Plain = Callable[..., Any]
TRANSFORMED = "it ran inside torch.func, whose tensors end with it. Run the model outside"


class Place(NamedTuple):
    """A name that has been replaced, in a Python module, a class or an nn.Module."""

    home: Any
    name: str
    plain: Any
    watched: Any
    inherited: bool  # the home had none of its own


_lock = threading.Lock()
_open = 0  # blocks that watch, in all threads
_places: list[Place] = []
_searched: dict[str, tuple[int, list[tuple[ModuleType, str]]]] = {}  # package -> at how many modules, names
_COMPILER = "torch._dynamo.trace_rules"  # finds PyTorch's functions by their names, once


@contextmanager
def watched_functions(tree: Tree) -> Iterator[None]:
    """Every known attention function can be seen while the block runs."""
    global _open
    with _lock:
        _open += 1
        if _open == 1 and _COMPILER in sys.modules:
            sys.modules[
                _COMPILER
            ].get_torch_obj_rule_map()  # finds them as they are, before they are replaced
        compiler = sys.modules.get(_COMPILER)
        _replace(tree)
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            if _open == 0:
                _restore()
            if compiler is None and _COMPILER in sys.modules:  # it came in the block, and found ours
                sys.modules[_COMPILER].get_torch_obj_rule_map.cache_clear()


def _replace(tree: Tree) -> None:
    """Functions by their home, and by names that the model's own code had bound before.

    Modules that look like attention are noted when they run, so that one that calls none of them is known.
    """
    taken = {(place.home, place.name) for place in _places}
    plain: dict[int, Function] = {}
    for function in FUNCTIONS:
        module = sys.modules.get(function.module)
        found = getattr(module, function.name, None)
        if module is not None and found is not None:
            home = next((p.plain for p in _places if (p.home, p.name) == (module, function.name)), found)
            plain.setdefault(id(home), function)
            _put(taken, module, function.name, home, _watched(function, home))
    heads, fastpath = F.multi_head_attention_forward, torch.backends.mha.get_fastpath_enabled
    _put(taken, F, "multi_head_attention_forward", heads, _watched_heads(heads))
    _put(taken, torch.backends.mha, "get_fastpath_enabled", fastpath, _watched_fastpath(fastpath))
    for module, name in _bound_before(tree.kinds, plain):
        bound: Any = getattr(module, name, None)
        known = plain.get(id(_inner(bound)))
        if known is not None:
            _put(taken, module, name, bound, _watched(known, bound))
    suspects = tree.suspects()
    for kind in suspects:
        _put(taken, kind, "forward", kind.forward, _noted(kind.forward))
    for suspect in tree.of(suspects).values():
        if "forward" in vars(suspect):  # somebody has given this one a function of its own
            _put(taken, suspect, "forward", suspect.forward, _noted_instance(suspect, suspect.forward))


def _put(taken: set[tuple[Any, str]], home: Any, name: str, plain: Any, watched: Any) -> None:
    if (home, name) not in taken:
        taken.add((home, name))
        _places.append(Place(home, name, plain, watched, name not in vars(home)))
        setattr(home, name, watched)


def _restore() -> None:
    for home, name, plain, watched, inherited in _places:
        if getattr(home, name, None) is not watched:  # somebody else has replaced it since
            continue
        if inherited:
            delattr(home, name)
        else:
            setattr(home, name, plain)
    _places.clear()


def _bound_before(kinds: set[type[nn.Module]], plain: dict[int, Function]) -> list[tuple[ModuleType, str]]:
    """Names of these functions in the packages that these classes come from, except ours and PyTorch's.

    A package is searched again when something has been imported since.
    """
    homes = {base.__module__ for kind in kinds for base in kind.__mro__}
    found = []
    for package in {home.partition(".")[0] for home in homes} - {"torch", "regard", "builtins"}:
        imported, names = _searched.get(package, (0, []))
        if imported != len(sys.modules):
            names = _search(package, plain)
            _searched[package] = len(sys.modules), names
        found += names
    return found


def _search(package: str, plain: dict[int, Function]) -> list[tuple[ModuleType, str]]:
    replaced = {(place.home, place.name) for place in _places}
    return [
        (module, name)
        for home, module in list(sys.modules.items())
        if home.partition(".")[0] == package and isinstance(module, ModuleType)
        for name, value in list(vars(module).items())
        if id(_inner(value)) in plain or (module, name) in replaced
    ]


def _inner(value: Any) -> Any:
    """The function that torch.compile was given, or what it is."""
    if not isinstance(value, FunctionType):
        return value
    return vars(value).get("_torchdynamo_orig_callable", value)


@lru_cache(maxsize=256)
def _watched(function: Function, plain: Plain) -> Plain:
    """The function, seen by whoever follows the module that calls it."""

    @wraps(plain)
    def watched(*given: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling() or not WATCHERS.get():
            return plain(*given, **named)
        followed = _followed()
        if not followed:
            return plain(*given, **named)
        out = unwatched(plain, *given, **named)
        try:
            seen = TRANSFORMED if is_transformed() else function.read(*given, **named)
        except Exception as error:  # a later version may mean something else; the model goes on
            seen = f"{function.name} was called in a way that is not known here ({error}). Report it, please"
        if isinstance(seen, Seen) and not any(_wants_gradients(watcher) for watcher, _ in followed):
            seen.values = None
        return _shown(function, followed, seen, out)

    return watched


@lru_cache(maxsize=256)
def _noted(plain: Plain) -> Plain:
    """The `forward` of a class; who follows the module learns that it ran."""

    @wraps(plain)
    def forward(self: nn.Module, *given: Any, **named: Any) -> Any:
        _note(self)
        return plain(self, *given, **named)

    return forward


def _noted_instance(module: nn.Module, plain: Plain) -> Plain:
    @wraps(plain)
    def forward(*given: Any, **named: Any) -> Any:
        _note(module)
        return plain(*given, **named)

    return forward


def _note(module: nn.Module) -> None:
    if not torch.compiler.is_compiling():
        for watcher in WATCHERS.get():
            path = watcher.others.get(id(module))
            if path is not None:
                watcher.called.add(path)


def _wants_gradients(watcher: Watcher) -> bool:
    return isinstance(watcher, Recording) and watcher.keep.gradients


def _shown(function: Function, followed: list[tuple[Watcher, str]], seen: AnySeen | str, out: Any) -> Any:
    """Show the call to everybody who follows it; what it returns, without the heads that they remove."""
    first = out[0] if isinstance(out, tuple) else out
    for watcher, path in followed:
        removed = watcher.removed(path)
        if removed and function.packed:
            first = without_heads(first[None], removed, path, function.head_axis)[0]
        elif removed:
            first = without_heads(first, removed, path, function.head_axis)
        if isinstance(watcher, Recording) and watcher.keep.wants(path):
            if isinstance(seen, str):
                watcher.trace.unseen[path] = seen
            else:
                watcher.add(path, _result(function, seen, first, watcher.keep.gradients))
    return (first, *out[1:]) if isinstance(out, tuple) else first


def _result(function: Function, seen: AnySeen, out: Tensor, gradients: bool) -> RecordedResult:
    if gradients and out.requires_grad:
        out.retain_grad()
    context = torch.nested.to_padded_tensor(out, 0.0) if out.is_nested else out
    context = context[None] if function.packed else context
    if function.head_axis == -2 and context.ndim > 3:
        context = context.transpose(-2, -3)
    return RecordedResult(seen, context, function.kernel, out=out if gradients else None)


@lru_cache(maxsize=4)
def _watched_heads(plain: Plain) -> Plain:
    """multi_head_attention_forward, seen where it builds the weights; else it calls a function that is seen.

    The function runs with a `softmax` that keeps what it is given, and with all else as it is.
    """
    signature = inspect.signature(plain)

    @wraps(plain)
    def watched(*given: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling() or not WATCHERS.get():
            return plain(*given, **named)
        call = signature.bind(*given, **named)
        call.apply_defaults()
        followed = _followed() if call.arguments["need_weights"] else []
        if not followed:
            return plain(*given, **named)
        heads, found = call.arguments["num_heads"], list[Tensor]()

        def softmax(scores: Tensor, dim: int) -> Tensor:
            scores = torch.unflatten(scores, 0, (-1, heads))
            found.append(scores)
            weights = scores.softmax(dim)
            for watcher, path in followed:
                removed = watcher.removed(path)
                weights = without_heads(weights, removed, path) if removed else weights
            return weights.flatten(0, 1)

        inside = FunctionType(plain.__code__, {**plain.__globals__, "softmax": softmax}, plain.__name__)
        inside.__defaults__, inside.__kwdefaults__ = plain.__defaults__, plain.__kwdefaults__
        out = unwatched(inside, *given, **named)
        dropout = call.arguments["dropout_p"] if call.arguments["training"] else 0.0
        context = out[0].transpose(0, 1) if out[0].ndim == 3 else out[0][None]
        for watcher, path in followed:
            if found:
                watcher.add(path, RecordedResult(SeenScores(found[0], dropout), context, "bmm"))
            elif isinstance(watcher, Recording):
                watcher.trace.unseen[path] = "this version of PyTorch computes its weights in an unknown way"
        return out

    return watched


@lru_cache(maxsize=4)
def _watched_fastpath(plain: Plain) -> Plain:
    """PyTorch's fast paths are one call for all heads: they are left where heads are removed."""

    @wraps(plain)
    def watched() -> bool:
        removing = not torch.compiler.is_compiling() and any(each.removes for each in WATCHERS.get())
        return False if removing else plain()

    return watched


def _followed() -> list[tuple[Watcher, str]]:
    """Who follows the module that calls, and its path: the innermost module of theirs among the callers."""
    if torch._C._current_graph_task_id() != -1:  # a backward pass computes again what was recorded
        return []
    waiting, found = list(WATCHERS.get()), list[tuple[Watcher, str]]()
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and waiting:
        code = frame.f_code
        # the first argument is `self`, or the module that a function was given
        first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if isinstance(first, nn.Module):
            if isinstance(first, Attention):
                return []  # ours: it leaves its result itself
            for watcher in tuple(waiting):
                path = watcher.others.get(id(first))
                if path is not None:
                    waiting.remove(watcher)
                    found.append((watcher, path))
        frame = frame.f_back
    return found

"""Patches the attention functions of other libraries during a recording, and restores them afterwards.

A patched function looks for recordings in this thread or task; without any it just calls the original. The
calling module is found on the call stack: hooks would send every call of a module through PyTorch's slow
path. Compilation, and recomputation in a backward pass, are not recorded.
"""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial, wraps
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.foreign.functions import FUNCTIONS, Function, later_sdpa
from regard.attention.foreign.seen import AnySeen, RecordedResult, Seen, SeenScores
from regard.attention.foreign.tree import KNOWN, MODELS, Facts, Tree
from regard.attention.foreign.unseen import COMPILED
from regard.attention.keep import version_of
from regard.attention.numerics import is_transformed
from regard.attention.trace import WATCHERS, Recording, Watcher, unwatched, without_heads

Plain = Callable[..., Any]
Key = tuple[Any, str]  # a home and a name
REPLAYED = "it replayed a CUDA graph, which runs without Python. Run the captured model itself"
TRANSFORMED = "it ran inside torch.func, whose tensors are valid only there. Run the model outside"


SDPA = FUNCTIONS[0]

# bound once: called on every attention call
is_compiling = torch.compiler.is_compiling
transforms = torch._C._functorch.peek_interpreter_stack  # None outside of torch.func
graph_task = torch._C._current_graph_task_id  # -1 except in a backward pass, which may recompute calls
function_modes = torch._C._len_torch_function_stack  # count of function modes, which may call others


class Place(NamedTuple):
    """An attribute that is patched, of a Python module, a class or an nn.Module."""

    home: Any
    name: str
    plain: Any
    watched: Any
    inherited: bool  # the home itself does not define it


_lock = threading.Lock()
_open = 0  # open blocks, in all threads
_places: dict[Key, Place] = {}  # patched now
_plans: dict[frozenset[type], tuple[object, dict[Key, Place]]] = {}  # module types -> imports, places
_HOMES = sorted({function.module for function in FUNCTIONS})
_COMPILER = "torch._dynamo.trace_rules"  # maps names to PyTorch's functions, once
_COMPILED = "torch._dynamo.eval_frame"  # runs compiled functions


@contextmanager
def watched_functions(tree: Tree) -> Iterator[None]:
    """Patch every known attention function while the block runs."""
    global _open
    with _lock:
        _open += 1
        compiler = sys.modules.get(_COMPILER)
        if compiler is not None and _open == 1:
            compiler.get_torch_obj_rule_map()  # maps the originals, before they are patched
        plan = _plan(tree.facts)
        if tree.changed:
            plan = plan | {place[:2]: place for place in _instances(tree)}
        if _places:  # another block has patched some
            plan = {key: place for key, place in plan.items() if key not in _places}
        _places.update(plan)
        for home, name, _, watched, _ in plan.values():
            setattr(home, name, watched)
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            if _open == 0:
                _restore()
            if compiler is None and _COMPILER in sys.modules:  # imported in the block, it mapped ours
                sys.modules[_COMPILER].get_torch_obj_rule_map.cache_clear()


def _restore() -> None:
    for home, name, plain, watched, inherited in _places.values():
        if getattr(home, name, None) is not watched:  # another library has patched it since
            continue
        if inherited:
            delattr(home, name)
        else:
            setattr(home, name, plain)
    _places.clear()


def _plan(facts: Facts) -> dict[Key, Place]:
    """The places to patch for models with these types; planned again after new imports or patches."""
    imported = [len(sys.modules), *map(sys.modules.get, _HOMES)]
    known, plan = _plans.get(facts.kinds, (None, {}))
    if known != imported or _is_stale(plan):
        if len(_plans) >= MODELS:
            _plans.clear()
        plan = {place[:2]: place for place in _planned(facts)}
        _plans[facts.kinds] = imported, plan
    return plan


def _is_stale(plan: dict[Key, Place]) -> bool:
    """True if another library has patched one of these since the plan was made."""
    for home, name, plain, watched, _ in plan.values():
        now = getattr(home, name, None)
        if now is not plain and now is not watched:
            return True
    return False


def _planned(facts: Facts) -> Iterator[Place]:
    """The known functions in their homes, and under the names by which other code has imported them.

    Suspected modules are patched to report that they run, which finds those that call no known function.
    """
    known: dict[int, Function] = {}
    for function in FUNCTIONS:
        module = sys.modules.get(function.module)
        if hasattr(module, function.name):
            place = _place(module, function.name, _watcher(function))
            known |= {id(place.plain): function, id(place.watched): function}
            yield place
    yield _place(F, "multi_head_attention_forward", _watched_heads)
    yield _place(torch.backends.mha, "get_fastpath_enabled", _watched_fastpath)
    yield _place(torch.cuda.CUDAGraph, "replay", _watched_replay)
    compiled = sys.modules.get(_COMPILED)
    if hasattr(compiled, "_callback_from_stance"):
        yield _place(compiled, "_callback_from_stance", _watched_compiled)
    for module, name, function in _bound_before(known):
        yield _place(module, name, _watcher(function))
    for kind in facts.suspects:
        yield _place(kind, "forward", _noted)


def _instances(tree: Tree) -> Iterator[Place]:
    """Suspected modules with a `forward` set on the instance."""
    for module in tree.changed:
        if type(module) in tree.facts.suspects and "forward" in vars(module):
            yield _place(module, "forward", partial(_noted_instance, module))


def _place(home: Any, name: str, watched: Callable[[Any], Any]) -> Place:
    """The place with its original function, even if it is patched now."""
    if (home, name) in _places:
        return _places[home, name]
    plain = getattr(home, name)
    return Place(home, name, plain, watched(plain), name not in vars(home))


def _bound_before(known: dict[int, Function]) -> Iterator[tuple[ModuleType, str, Function]]:
    """Names of these functions in all modules, except regard's and PyTorch's."""
    for home, module in list(sys.modules.items()):
        if home.partition(".")[0] not in KNOWN and isinstance(module, ModuleType):
            for name, value in list(vars(module).items()):
                function = known.get(id(_inner(value)))
                if function is not None:
                    yield module, name, function


def _inner(value: Any) -> Any:
    """The function that torch.compile was given, or the value itself."""
    if not isinstance(value, FunctionType):
        return value
    return vars(value).get("_torchdynamo_orig_callable", value)


def _watcher(function: Function) -> Callable[[Plain], Plain]:
    return _watched_sdpa if function is SDPA else partial(_watched, function)


@lru_cache(maxsize=256)
def _watched(function: Function, plain: Plain) -> Plain:
    """Wrap a function: watchers of the calling module see its calls."""

    @wraps(plain)
    def watched(*given: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling() or not (followed := _followed()):
            return plain(*given, **named)
        out = unwatched(plain, *given, **named)
        try:
            seen = TRANSFORMED if is_transformed() else function.read(*given, **named)
        except Exception as error:  # a later version may have other arguments; the model must go on
            seen = f"{function.name} was called in a way that is not known here ({error}). Please report it"
        if isinstance(seen, Seen) and not any(map(_wants_gradients, followed)):
            seen.values = None
        return _shown(function, followed, seen, out)

    return watched


@lru_cache(maxsize=256)
def _watched_sdpa(plain: Plain) -> Plain:
    """Wrap scaled_dot_product_attention, with little overhead: small models call it very often.

    If a single recording wants all of a call, and the caller is a method of a followed module, the arguments
    are queued and become a result later. Everything else takes the general path.
    """
    general = _watched(SDPA, plain)
    if not isinstance(plain, BuiltinFunctionType):  # it may call patched functions in turn
        return general

    @wraps(plain)
    def watched(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
        **more: Any,
    ) -> Any:
        watchers = () if is_compiling() else WATCHERS.get()
        if (
            len(watchers) != 1
            or (later := watchers[0].later) is None
            or (path := watchers[0].others.get(id(_first(sys._getframe(1))))) is None
            or more
            or type(query) is not Tensor
            or query.is_nested
            or (attn_mask is not None and attn_mask.ndim == 0)
            or transforms() is not None
            or graph_task() != -1
            or function_modes()
        ):
            more.update(scale=scale, enable_gqa=enable_gqa)
            return general(query, key, value, attn_mask, dropout_p, is_causal, **more)
        out = plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        try:
            versions = [query._version, key._version]
        except RuntimeError:  # inference tensors
            versions = [version_of(query), version_of(key)]
        if attn_mask is not None:
            versions.append(version_of(attn_mask))
        later.append((path, later_sdpa, query, key, attn_mask, dropout_p, is_causal, scale, versions, out))
        watchers[0].left.add(path)
        return out

    return watched


@lru_cache(maxsize=256)
def _noted(plain: Plain) -> Plain:
    """Wrap the `forward` of a class: watchers of the module learn that it runs."""

    @wraps(plain)
    def forward(self: nn.Module, *given: Any, **named: Any) -> Any:
        if not is_compiling():
            for watcher in WATCHERS.get():
                watcher.called.add(id(self))
        return plain(self, *given, **named)

    return forward


def _noted_instance(module: nn.Module, plain: Plain) -> Plain:
    """The same for a `forward` set on this instance."""

    @wraps(plain)
    def forward(*given: Any, **named: Any) -> Any:
        if not is_compiling():
            for watcher in WATCHERS.get():
                watcher.called.add(id(module))
        return plain(*given, **named)

    return forward


def _wants_gradients(watcher: Watcher) -> bool:
    return isinstance(watcher, Recording) and watcher.keep.gradients


def _shown(function: Function, followed: dict[Watcher, str], seen: AnySeen | str, out: Any) -> Any:
    """Show the call to its watchers; return its output without the heads that they remove."""
    first = out[0] if isinstance(out, tuple) else out
    for watcher, path in followed.items():
        removed = watcher.removed(path)
        if removed and function.packed:
            first = without_heads(first[None], removed, path, function.head_axis)[0]
        elif removed:
            first = without_heads(first, removed, path, function.head_axis)
        if isinstance(watcher, Recording) and watcher.keep.wants(path):
            if isinstance(seen, str):
                watcher.miss(path, seen)
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
    """Wrap multi_head_attention_forward for calls that build the weights; others call a known function.

    The original code runs with another `softmax`, which keeps the scores.
    """
    signature = inspect.signature(plain)

    @wraps(plain)
    def watched(*given: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling() or not WATCHERS.get():
            return plain(*given, **named)
        call = signature.bind(*given, **named)
        call.apply_defaults()
        followed = _followed() if call.arguments["need_weights"] else {}
        if not followed:
            return plain(*given, **named)
        heads, found = call.arguments["num_heads"], list[Tensor]()

        def softmax(scores: Tensor, dim: int) -> Tensor:
            scores = torch.unflatten(scores, 0, (-1, heads))
            found.append(scores)
            weights = scores.softmax(dim)
            for watcher, path in followed.items():
                removed = watcher.removed(path)
                weights = without_heads(weights, removed, path) if removed else weights
            return weights.flatten(0, 1)

        inside = FunctionType(plain.__code__, {**plain.__globals__, "softmax": softmax}, plain.__name__)
        inside.__defaults__, inside.__kwdefaults__ = plain.__defaults__, plain.__kwdefaults__
        out = unwatched(inside, *given, **named)
        dropout = call.arguments["dropout_p"] if call.arguments["training"] else 0.0
        context = out[0].transpose(0, 1) if out[0].ndim == 3 else out[0][None]
        for watcher, path in followed.items():
            if is_transformed():
                watcher.miss(path, TRANSFORMED)
            elif found:
                watcher.add(path, RecordedResult(SeenScores(found[0], dropout), context, "bmm"))
            else:
                watcher.miss(path, "this version of PyTorch computes its weights in an unknown way")
        return out

    return watched


@lru_cache(maxsize=4)
def _watched_fastpath(plain: Plain) -> Plain:
    """Disable PyTorch's fast paths, one call for all heads, while heads are removed."""

    @wraps(plain)
    def watched() -> bool:
        removing = not torch.compiler.is_compiling() and any(each.removes for each in WATCHERS.get())
        return False if removing else plain()

    return watched


@lru_cache(maxsize=4)
def _watched_replay(plain: Plain) -> Plain:
    """Wrap CUDAGraph.replay, which leaves no results: the calling module is reported as unseen."""

    @wraps(plain)
    def watched(graph: Any) -> Any:
        if not torch.compiler.is_compiling():
            for watcher, path in _followed().items():
                watcher.miss(path, REPLAYED)
        return plain(graph)

    return watched


@lru_cache(maxsize=4)
def _watched_compiled(plain: Plain) -> Plain:
    """Wrap what every compiled function calls first, to report those that run a followed module."""

    @wraps(plain)
    def watched(callback: Any) -> Any:
        found = plain(callback)
        if found is not None:  # not told to run eagerly
            compiled: Any = sys._getframe(1).f_locals.get("fn")
            compiled = inspect.unwrap(compiled)
            module = getattr(compiled, "__self__", compiled)  # of a method
            for watcher in WATCHERS.get():
                path = watcher.path_of(module)
                if path is not None:
                    watcher.miss(path, COMPILED.format(type(module).__name__))
        return found

    return watched


def _followed() -> dict[Watcher, str]:
    """Watchers of the calling module -> its path, of the innermost module on the stack that each follows."""
    found: dict[Watcher, str] = {}
    watchers = WATCHERS.get()
    if not watchers or graph_task() != -1:
        return found
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        first = _first(frame)
        if isinstance(first, nn.Module):
            if isinstance(first, Attention):
                return {}  # regard's own leaves its result itself
            for watcher in watchers:
                path = watcher.others.get(id(first))
                if path is not None:
                    found.setdefault(watcher, path)
            if len(found) == len(watchers):
                break
        frame = frame.f_back
    return found


def _first(frame: FrameType) -> object:
    """The first argument of a function: `self`, or the module that it was given."""
    return next(iter(frame.f_locals.values()), None) if frame.f_code.co_argcount else None

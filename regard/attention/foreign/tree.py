"""The modules of a model by path, and their types, found in one walk.

Every recording begins with this walk, and a model has hundreds of modules. So the result is cached between
recordings and validated by comparing whole lists. The cache keeps no module alive.
"""

import weakref
from itertools import chain, compress
from typing import NamedTuple

import torch
from torch import nn

from regard.attention.compose import Attention

LEAVES: frozenset[type] = frozenset(  # most modules are these; nothing attends in them, so they are skipped
    (nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm, nn.Dropout, nn.Identity, nn.GELU, nn.ReLU, nn.Conv2d)
)
MODELS = 64  # entries of a cache
KNOWN = ("torch", "regard")  # packages whose modules are never suspected
GRAPHS = (torch.jit.ScriptModule, torch.fx.GraphModule)
COMPILER = "OptimizedModule"  # the class of torch.compile(model), which is imported only then


class Facts(NamedTuple):
    """What follows from the paths and types of all modules."""

    paths: dict[int, str]  # of modules, by id: the model keeps them alive
    own: dict[int, str]  # those of regard's own attention
    others: dict[int, str]  # those of all other modules
    suspected: dict[int, str]  # those named attention, neither regard's nor PyTorch's
    kinds: frozenset[type[nn.Module]]
    suspects: frozenset[type[nn.Module]]  # the types of `suspected`
    graphs: bool  # True if some types may run without Python
    attends: bool  # True if some types attend, or are neither PyTorch's nor regard's
    covered: dict[frozenset[str], frozenset[int]]  # paths of results -> ids of the `suspected` around them


class Tree(NamedTuple):
    """The result of a walk through a model."""

    found: list[nn.Module]  # all but LEAVES
    changed: list[nn.Module]  # those with a `forward` of their own, or compiled in place
    facts: Facts

    @property
    def modules(self) -> dict[str, nn.Module]:
        """As dict(model.named_modules()), without LEAVES."""
        by_id = {id(module): module for module in self.found}
        return {path: by_id[key] for key, path in self.facts.paths.items()}


class Walk(NamedTuple):
    """A cached walk, with what is needed to check that it is still valid."""

    found: list[weakref.ref[nn.Module]]  # once each, breadth first, from the model on
    first: list[bool]  # for each child of these: True if it was found there first
    again: list[tuple[int, int]]  # children found before: index among all children, index in `found`
    kinds: list[type]  # of the model and all children
    names: list[str]
    facts: Facts


_known: dict[int, Walk] = {}  # by the id of the model


def tree_of(model: nn.Module) -> Tree:
    """Every module of the model as it is now."""
    known = _known.get(id(model))
    found = None if known is None else _found_again(known)
    if known is None or found is None or found[0] is not model:
        if len(_known) >= MODELS:
            _known.clear()
        known, found = _walk(model)
        _known[id(model)] = known
    changed = [each for each in found if "forward" in each.__dict__ or "_compiled_call_impl" in each.__dict__]
    return Tree(found, changed, known.facts)


def _found_again(known: Walk) -> list[nn.Module] | None:
    """The modules, or None if their children have changed. Loops run in C where possible, which is fast."""
    found: list[nn.Module] = [each() for each in known.found]  # type: ignore[misc]  # None: it was freed
    try:
        inside = [each._modules for each in found]
    except AttributeError:
        return None
    children = list(chain.from_iterable(map(dict.values, inside)))
    same = (
        [type(found[0]), *map(type, children)] == known.kinds
        and list(compress(children, known.first)) == found[1:]
        and list(chain.from_iterable(inside)) == known.names
        and all(children[child] is found[module] for child, module in known.again)
    )
    return found if same else None


def _walk(model: nn.Module) -> tuple[Walk, list[nn.Module]]:
    found, numbers = [model], {id(model): 0}
    names, first = list[str](), list[bool]()
    kinds: list[type] = [type(model)]
    again: list[tuple[int, int]] = []
    for module in found:  # grows in the loop
        for name, child in module._modules.items():
            first.append(False)
            if child is None or type(child) in LEAVES:
                pass
            elif id(child) in numbers:
                again.append((len(names), numbers[id(child)]))
            else:
                first[-1], numbers[id(child)] = True, len(found)
                found.append(child)
            names.append(name)
            kinds.append(type(child))
    return Walk([weakref.ref(each) for each in found], first, again, kinds, names, _facts_of(model)), found


def _facts_of(model: nn.Module) -> Facts:
    modules = [(path, m) for path, m in model.named_modules() if m is model or type(m) not in LEAVES]
    kinds = frozenset(type(module) for _, module in modules)
    suspects = frozenset(filter(_is_suspect, kinds))
    return Facts(
        {id(module): path for path, module in modules},
        {id(module): path for path, module in modules if isinstance(module, Attention)},
        {id(module): path for path, module in modules if not isinstance(module, Attention)},
        {id(module): path for path, module in modules if type(module) in suspects},
        kinds,
        suspects,
        any(issubclass(kind, GRAPHS) or kind.__name__ == COMPILER for kind in kinds),
        any(map(_may_attend, kinds)),
        {},
    )


def _is_suspect(kind: type[nn.Module]) -> bool:
    name = kind.__name__.lower()
    return ("attention" in name or "attn" in name) and kind.__module__.partition(".")[0] not in KNOWN


def _may_attend(kind: type[nn.Module]) -> bool:
    """True for types that attend, and for those that are neither PyTorch's layers nor regard's."""
    known = kind.__module__.startswith(("torch.nn.modules.", "regard."))
    return not known or issubclass(kind, Attention | nn.MultiheadAttention)

"""The modules of a model by path, and what kinds of them there are: one walk for all who ask.

Every recording begins with this walk, and a model has hundreds of modules. What a walk found is therefore
kept from one recording to the next, and the next compares whole lists with it. It keeps no module alive.
"""

import weakref
from itertools import chain, compress
from typing import NamedTuple

import torch
from torch import nn

from regard.attention.compose import Attention

LEAVES: frozenset[type] = frozenset(  # nothing attends in them, so they need no visit: most modules are these
    (nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm, nn.Dropout, nn.Identity, nn.GELU, nn.ReLU, nn.Conv2d)
)
MODELS = 64  # whose facts are kept
KNOWN = ("torch", "regard")  # packages whose attention is seen
GRAPHS = (torch.jit.ScriptModule, torch.fx.GraphModule)
COMPILER = "OptimizedModule"  # the class that torch.compile(model) makes, which is imported when it does


class Facts(NamedTuple):
    """What follows from the names and kinds of all modules."""

    paths: dict[int, str]  # of modules by id: the model keeps them alive
    own: dict[int, str]  # those of regard's own attention
    others: dict[int, str]  # and all the others
    suspected: dict[int, str]  # those that attend by their name, and are neither ours nor PyTorch's
    kinds: frozenset[type[nn.Module]]
    suspects: frozenset[type[nn.Module]]  # the kinds of `suspected`
    graphs: bool  # some kinds may run without Python
    attends: bool  # some kinds are neither PyTorch's nor ours, or attend
    covered: dict[frozenset[str], frozenset[int]]  # paths of results -> those of `suspected` around one


class Tree(NamedTuple):
    """What a walk through a model finds."""

    found: list[nn.Module]  # all but LEAVES
    changed: list[nn.Module]  # those with a `forward` of their own, or that were compiled in place
    facts: Facts

    @property
    def modules(self) -> dict[str, nn.Module]:
        """As dict(model.named_modules()), without LEAVES."""
        by_id = {id(module): module for module in self.found}
        return {path: by_id[key] for key, path in self.facts.paths.items()}


class Walk(NamedTuple):
    """What was found by walking, by which it is known whether another walk would find the same."""

    found: list[weakref.ref[nn.Module]]  # once each, in breadth; the model is the first
    first: list[bool]  # of all children of those: which is found there first
    again: list[tuple[int, int]]  # and which was found before: its number, and that of the module
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
    """The modules, if their children are what they were: as many C loops as can be, which are fast."""
    found: list[nn.Module] = [each() for each in known.found]  # type: ignore[misc]  # None: it is gone
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
    for module in found:  # which grows
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
    """Neither PyTorch's own layer nor ours, or one that attends."""
    known = kind.__module__.startswith(("torch.nn.modules.", "regard."))
    return not known or issubclass(kind, Attention | nn.MultiheadAttention)

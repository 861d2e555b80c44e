"""What cannot be recorded: compiled graphs, and modules that call no known attention function."""

import sys
from collections.abc import Iterable

import torch
from torch import nn

from regard.attention.foreign.tree import MODELS, Facts, Tree
from regard.attention.keep import Keep
from regard.attention.trace import Recording

COMPILED = (
    "{} is compiled, so its calls do not pass through Python. Run the block inside "
    'torch.compiler.set_stance("force_eager"), or run what torch.compile was given'
)
SCRIPTED = "{} is TorchScript or a traced graph, which runs without Python. Record the original"
NOTHING = (
    "no attention was seen in the block: the model ran elsewhere (in another thread, in a function given to "
    "torch.compile) or not at all, or it computes its weights itself. Run it in the block, and let it call "
    "torch.nn.functional.scaled_dot_product_attention"
)
NO_FUNCTION = (
    "{} ran without calling a known attention function: it computes its weights itself, or in a kernel of "
    "its own. Let it call torch.nn.functional.scaled_dot_product_attention; a model of "
    'transformers does so after model.set_attn_implementation("sdpa"), or has output_attentions=True'
)


def is_compiled(module: nn.Module) -> bool:
    """True if the module runs a graph of torch.compile, unless that is told to run eagerly."""
    compiled = module._compiled_call_impl is not None or "_orig_mod" in module._modules
    return compiled and not _runs_eagerly()


def _runs_eagerly() -> bool:
    """True if torch.compiler.set_stance("force_eager") is in effect."""
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    return eval_frame is not None and eval_frame._stance.stance == "force_eager"


def graphs(tree: Tree, keep: Keep) -> dict[str, str]:
    """Path -> reason, for the outermost modules that run without Python and concern the recorded layers."""
    found: dict[str, str] = {}
    if not tree.changed and not tree.facts.graphs:  # most models; runs at every recording's start
        return found
    for path, module in tree.modules.items():
        reason = _graph(module)
        if reason is None or any(not outer or path.startswith(f"{outer}.") for outer in found):
            continue
        if keep.concerns(path):
            found[path] = reason.format(type(module).__name__)
    return found


def _graph(module: nn.Module) -> str | None:
    """The reason why the module runs without Python; None if it does not."""
    if is_compiled(module):
        return COMPILED
    return SCRIPTED if isinstance(module, torch.jit.ScriptModule) or _is_exported(module) else None


def _is_exported(module: nn.Module) -> bool:
    """True for an fx graph that calls attention directly, bypassing the patched names."""
    graph = module.__dict__.get("_graph")
    if not isinstance(graph, torch.fx.Graph):
        return False
    return any(node.op == "call_function" and "attention" in str(node.target) for node in graph.nodes)


def silent(recording: Recording, tree: Tree) -> dict[str, str]:
    """Path -> reason, for modules that ran and left no result, nor did any inside or around them."""
    known = frozenset((*recording.left, *recording.trace.unseen))
    suspected, others = tree.facts.suspected, recording.called - _covered(known, tree.facts)
    ran = {suspected[key] for key in others if key in suspected}
    if not ran:
        return {} if known else {"": NOTHING}
    missing = set(filter(recording.keep.wants, ran))
    taken, modules = known | missing, tree.modules
    outermost = sorted(path for path in missing if taken.isdisjoint(_around([path]) - {path}))
    return {path: NO_FUNCTION.format(type(modules[path]).__name__) for path in outermost}


def _covered(known: frozenset[str], facts: Facts) -> frozenset[int]:
    """Ids of the suspected modules that contain a known path; cached by the set of paths."""
    found = facts.covered.get(known)
    if found is None:
        if len(facts.covered) >= MODELS:
            facts.covered.clear()
        around = _around(known)
        found = frozenset(key for key, path in facts.suspected.items() if path in around)
        facts.covered[known] = found
    return found


def _around(paths: Iterable[str]) -> set[str]:
    """The paths and all their ancestors: "a.b" is inside "a", and "a" inside the model, ""."""
    found = set()
    for path in paths:
        while path not in found:
            found.add(path)
            path = path.rpartition(".")[0]
    return found

"""What runs and cannot be recorded: compiled graphs, and modules that call no function we can see."""

import sys

import torch
from torch import nn

from regard.attention.foreign.tree import Tree
from regard.attention.trace import Recording

COMPILER = "OptimizedModule"  # the class that torch.compile(model) makes, which is imported when it does
COMPILED = (
    "{} is compiled, so its calls do not pass through Python. Run the block inside "
    'torch.compiler.set_stance("force_eager"), or record the module that was compiled'
)
SCRIPTED = "{} is TorchScript or a traced graph, which runs without Python. Record the original"
NO_FUNCTION = (
    "{} ran and called no attention function that can be seen: it computes its weights itself, or by a "
    "kernel of its own. Let it call torch.nn.functional.scaled_dot_product_attention; a model of "
    'transformers does so after model.set_attn_implementation("sdpa")'
)


def is_compiled(module: nn.Module) -> bool:
    """The module runs a graph of torch.compile, unless that is told to run eagerly."""
    compiled = module._compiled_call_impl is not None or "_orig_mod" in module._modules
    return compiled and not _runs_eagerly()


def _runs_eagerly() -> bool:
    """torch.compiler.set_stance("force_eager") is in effect."""
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    return eval_frame is not None and eval_frame._stance.stance == "force_eager"


def graphs(tree: Tree, layers: tuple[str, ...] | None) -> dict[str, str]:
    """Path -> why, of the outermost parts that run without Python; of these layers, if any are named."""
    found: dict[str, str] = {}
    odd = {
        kind for kind in tree.kinds if issubclass(kind, torch.jit.ScriptModule) or kind.__name__ == COMPILER
    }
    for path, module in tree.modules.items():
        own = module.__dict__  # few modules are asked further: this is passed at the start of every recording
        if "_compiled_call_impl" not in own and "_graph" not in own and type(module) not in odd:
            continue
        reason = _graph(module)
        if reason is None or any(not outer or path.startswith(f"{outer}.") for outer in found):
            continue
        if layers is None or any(_related(path, layer) for layer in layers):
            found[path] = reason.format(type(module).__name__)
    return found


def _graph(module: nn.Module) -> str | None:
    """Why the module runs without Python, None where it does not."""
    if is_compiled(module):
        return COMPILED
    return SCRIPTED if isinstance(module, torch.jit.ScriptModule) or _is_exported(module) else None


def _is_exported(module: nn.Module) -> bool:
    """A graph that calls attention by itself, past the names that are replaced."""
    graph = module.__dict__.get("_graph")
    if not isinstance(graph, torch.fx.Graph):
        return False
    return any(node.op == "call_function" and "attention" in str(node.target) for node in graph.nodes)


def silent(recording: Recording, modules: dict[str, nn.Module]) -> dict[str, str]:
    """Path -> why, of modules that ran and left nothing, nor did anything inside or around them."""
    known = recording.left | recording.trace.unseen.keys()
    around = {outer for path in known for outer in _outer(path)}
    missing = {
        path
        for path in recording.called
        if path not in around
        and not any(outer in known for outer in _outer(path))
        and recording.keep.wants(path)
    }
    outermost = sorted(path for path in missing if not any(outer in missing for outer in _outer(path)[1:]))
    return {path: NO_FUNCTION.format(type(modules[path]).__name__) for path in outermost}


def _outer(path: str) -> list[str]:
    """The path and those of the modules around it, up to the model itself, "".

    "a.b" -> "a.b", "a", ""
    """
    found = [path]
    while path:
        path = path.rpartition(".")[0]
        found.append(path)
    return found


def _related(a: str, b: str) -> bool:
    """One of the paths is the other, or inside it."""
    return not a or not b or a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.")

"""What runs and cannot be recorded: compiled graphs, and modules that call no function we can see."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from regard.attention.trace import WATCHERS, Recording

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
    compiled = hasattr(module, "_orig_mod") or module._compiled_call_impl is not None
    return compiled and not _runs_eagerly()


def _runs_eagerly() -> bool:
    """torch.compiler.set_stance("force_eager") is in effect."""
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    return eval_frame is not None and eval_frame._stance.stance == "force_eager"


def graphs(modules: dict[str, nn.Module], layers: tuple[str, ...] | None) -> dict[str, str]:
    """Path -> why, of the outermost parts that run without Python; of these layers, if any are named."""
    found: dict[str, str] = {}
    for path, module in modules.items():
        if any(not outer or path.startswith(f"{outer}.") for outer in found):
            continue
        if layers is not None and not any(_related(path, layer) for layer in layers):
            continue
        name = type(module).__name__
        if is_compiled(module):
            found[path] = COMPILED.format(name)
        elif isinstance(module, torch.jit.ScriptModule) or _is_exported(module):
            found[path] = SCRIPTED.format(name)
    return found


def _is_exported(module: nn.Module) -> bool:
    """A graph that calls attention by itself, past the names that are replaced."""
    graph = module.__dict__.get("_graph")
    if not isinstance(graph, torch.fx.Graph):
        return False
    return any(node.op == "call_function" and "attention" in str(node.target) for node in graph.nodes)


@contextmanager
def noticing(modules: Iterable[nn.Module], recording: Recording) -> Iterator[None]:
    """Note which modules that look like attention run while the block does."""

    def ran(module: nn.Module, _: object) -> None:
        if not torch.compiler.is_compiling() and recording in WATCHERS.get():
            path = recording.others.get(id(module))
            if path is not None:
                recording.called.add(path)

    hooks = [module.register_forward_pre_hook(ran) for module in modules if is_suspect(module)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def is_suspect(module: nn.Module) -> bool:
    """By its name it attends, and it is neither ours nor PyTorch's, which are seen."""
    home = type(module).__module__.partition(".")[0]
    name = type(module).__name__.lower()
    return home not in ("torch", "regard") and ("attention" in name or "attn" in name)


def silent(recording: Recording, modules: dict[str, nn.Module]) -> dict[str, str]:
    """Path -> why, of modules that ran and left nothing, nor did anything inside or around them."""
    trace = recording.trace
    known = [*trace, *trace.unseen]
    wanted = (path for path in recording.called if recording.keep.wants(path))
    missing = sorted(path for path in wanted if not any(_related(path, other) for other in known))
    outermost = [path for path in missing if not any(path.startswith(f"{other}.") for other in missing)]
    return {path: NO_FUNCTION.format(type(modules[path]).__name__) for path in outermost}


def _related(a: str, b: str) -> bool:
    """One of the paths is the other, or inside it."""
    return not a or not b or a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.")

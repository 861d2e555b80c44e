"""`import regard` is quick, its names need torch alone and decide nothing; imports point one way."""

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard.attention.dispatch import kernels

ROOT = Path(regard.__file__).parent

FRESH = """
import json, sys, warnings
import torch
before = set(sys.modules)
devices = []
for name in ("cuda", "mps", "xpu"):
    part = getattr(torch, name, None)
    if part is not None and hasattr(part, "is_available"):
        setattr(part, "is_available", lambda name=name: devices.append(name) or False)
seed = torch.random.get_rng_state().tolist()
threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
import regard
regard.Attention
print(json.dumps({
    "added": sorted({name.partition(".")[0] for name in set(sys.modules) - before}),
    "all": sorted({name.partition(".")[0] for name in sys.modules}),
    "devices": devices,
    "cuda": torch.cuda.is_initialized(),
    "random": torch.random.get_rng_state().tolist() == seed,
    "settings": torch.get_num_threads() == threads and torch.get_default_dtype() == dtype,
}))
"""


@pytest.fixture(scope="module")
def fresh():
    """What a fresh process knows after `import torch`, `import regard` and its first public name."""
    command = [sys.executable, "-W", "error::UserWarning", "-c", FRESH]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT.parent, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_regard_loads_torch_alone(fresh):
    """Beyond what torch loads by itself: regard, and nothing that is not of the standard library."""
    assert [name for name in fresh["added"] if name not in sys.stdlib_module_names] == ["regard"]


@pytest.mark.parametrize(
    "name",
    [
        "accelerate",
        "matplotlib",
        "resvg_py",
        "tokenizers",
        "sacrebleu",
        "rich",
        "typer",
        "safetensors",
        "PIL",
        "tensorboard",
        "scipy",
        "huggingface_hub",
        "transformers",
    ],
)
def test_importing_regard_does_not_load(fresh, name):
    assert name not in fresh["all"]


def test_importing_regard_decides_nothing(fresh):
    assert fresh["devices"] == []
    assert fresh["cuda"] is False
    assert fresh["random"]
    assert fresh["settings"]


LAZY = """
import sys
{first}
assert "torch" not in sys.modules
{then}
from regard.attention.dispatch import kernels
from regard.attention.display import RENDERERS
assert len(kernels()) == {count}
assert len(RENDERERS) == 1
"""


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("import regard; regard.__version__; hasattr(regard, '__wrapped__')", "regard.Attention"),
        ("from regard import ConfigError, catalog, hub, load, storage", "from regard import DotScore"),
        ("", "import regard.attention.compose"),
        ("", "import regard.kernels.product.blocks"),
        ("import regard", "assert regard.attention.compose.Attention is regard.Attention"),
        ("import regard", "catalog = regard.catalog; assert catalog.find('dot', 'score').year == 2015"),
        ("", "from regard import *; Attention(DotScore()); load, show, view, record, RegardError"),
    ],
)
def test_torch_and_the_kernels_come_with_the_first_name_that_needs_them(first, then):
    code = LAZY.format(first=first, then=then, count=len(kernels()))
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=ROOT.parent)


def test_a_type_checker_reads_the_names_that_are_there():
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    written = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            named = {alias.asname for alias in node.names} - {None}
            stars = vars(importlib.import_module(node.module)) if node.names[0].name == "*" else ()
            written |= named | {name for name in stars if name[0].isupper()}
    assert {name for name in written if not name.startswith("_")} == set(regard.__all__)
    assert set(regard.__all__) <= set(dir(regard))
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'nothing'"):
        regard.nothing  # noqa: B018


def test_what_translates_does_not_load_the_compiler_of_torch():
    """It would take a second and 140 MB of every command."""
    code = (
        "import sys, regard.models.transformer, regard.models.luong, regard.models.rnnsearch, "
        "regard.tasks.files, regard.tasks.corpus, regard.decode.translator; "
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=ROOT.parent)


# low to high; what stands on one line may import each other
LAYERS = (
    ("errors", "renamed", "extras", "tensor_bytes"),
    ("catalog", "lock", "storage", "web"),
    ("hub",),
    ("attention",),
    ("kernels",),
    ("layers",),
    ("data",),
    ("tasks",),
    ("models",),
    ("decode", "evaluate", "viz"),
    ("analysis",),
    ("train",),
    ("compare", "views"),
    ("export",),
    ("shipped",),
    ("systems", "translate"),
    ("integrations",),
    ("notebook",),
    ("bench", "serve"),
    ("cli",),
)
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        yield ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"), path


def imports(name, path):
    """Every module of regard that this one imports: also inside functions, for type checking, as a string."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] == "regard")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            if node.module and node.module.partition(".")[0] == "regard":
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    yield inner if exists(inner) else node.module
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # a path as a string, `module:name`, is imported by whoever reads it
            named = re.fullmatch(r"(regard(?:\.\w+)+)(?::\w+)?", node.value)
            if named and exists(named[1]) and part(named[1]) != "recipes":  # a folder of files
                yield named[1]


def exists(module):
    path = ROOT.parent.joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


def part(module):
    """The part of the package a module belongs to; the root belongs to none."""
    return module.split(".")[1] if "." in module else ""


ARROWS = [(name, target) for name, path in modules() for target in imports(name, path)]


def test_every_part_of_the_package_has_its_height():
    parts = {part(name) for name, _ in modules()} - {"", "__main__", "recipes"}
    assert parts <= set(HEIGHT)


def test_no_import_points_down():
    """No arrow from a part to one above it; the root, which imports everything, is for the command line."""
    wrong = [
        f"{name} imports {target}"
        for name, target in ARROWS
        if part(name) in HEIGHT and HEIGHT.get(part(target), len(LAYERS) - 1) > HEIGHT[part(name)]
    ]
    assert wrong == []


FORBIDDEN = {
    "tasks never import models": lambda a, b: part(a) == "tasks" and part(b) == "models",
    "viz reads results, not models, tasks or training": lambda a, b: (
        part(a) == "viz" and part(b) in ("models", "tasks", "train")
    ),
    "decode knows of models their protocol alone": lambda a, b: (
        part(a) == "decode" and part(b) == "models" and b != "regard.models.base"
    ),
    "models know of tasks their base alone": lambda a, b: (
        part(a) == "models" and part(b) == "tasks" and b != "regard.tasks.base"
    ),
    "nothing imports the command line": lambda a, b: part(b) == "cli" and part(a) not in ("cli", "__main__"),
    "the catalogue imports errors and old names alone": lambda a, b: (
        a == "regard.catalog" and b not in ("regard.errors", "regard.renamed")
    ),
    "old names import nothing": lambda a, b: a == "regard.renamed",
    "storage imports nothing": lambda a, b: a == "regard.storage",
    "errors import nothing": lambda a, b: a == "regard.errors",
    "extras import errors alone": lambda a, b: a == "regard.extras" and b != "regard.errors",
}


@pytest.mark.parametrize("rule", FORBIDDEN)
def test_the_rules_between_neighbours(rule):
    assert [f"{a} imports {b}" for a, b in ARROWS if FORBIDDEN[rule](a, b)] == []


def test_the_walk_sees_the_imports():
    """The tests above would be silent if the walk found nothing."""
    assert ("regard.attention.compose", "regard.attention.dispatch") in ARROWS
    inside = ("regard.kernels.training.residual", "regard.kernels.training.residual_triton")
    assert inside in ARROWS  # imported in a function
    assert ("regard", "regard.attention") in ARROWS
    assert ("regard.views", "regard.views.alignment") in ARROWS  # a string


# within the algebra: facts, then equations, then what composes them
ALGEBRA = (
    ("numerics", "parts", "paths", "mask", "display", "together"),
    ("forms", "source", "result"),
    ("history", "cache", "hidden", "fitting", "keep", "summary"),
    ("trace",),
    ("scores", "normalizers", "windows", "mistakes"),
    ("dispatch",),
    ("reference",),
    ("looks",),
    ("top_k",),
    ("memory", "compose"),
    ("attend", "in_order", "multihead", "foreign"),
    ("record",),
    ("config",),
)
STOREY = {name: height for height, names in enumerate(ALGEBRA) for name in names}


def test_imports_within_the_algebra_point_one_way():
    wrong = []
    for name, target in ARROWS:
        if part(name) == part(target) == "attention" and "." in name.removeprefix("regard."):
            low, high = target.split(".")[2], name.split(".")[2]
            if STOREY[low] > STOREY[high]:
                wrong.append(f"{name} imports {target}")
    assert wrong == []
    files = {name.split(".")[2] for name, _ in modules() if name.startswith("regard.attention.")}
    assert files == set(STOREY)


def outside(nodes):
    """Names of packages that are neither torch nor regard nor of the standard library."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"torch", "regard"}


def test_the_algebra_imports_torch_and_the_standard_library_alone():
    for path in (ROOT / "attention").rglob("*.py"):
        assert outside(ast.walk(ast.parse(path.read_text()))) == set(), path


def test_kernels_may_need_triton_and_then_are_imported_when_they_run():
    heavy = set()
    for name, path in modules():
        tree = ast.parse(path.read_text())
        assert part(name) != "kernels" or outside(ast.walk(tree)) <= {"triton"}, name
        if "triton" in outside(tree.body):
            heavy.add(name)
    for name, path in modules():
        if name in heavy:
            continue
        at_once = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)]
        imported = {node.module for node in at_once}
        imported |= {f"{node.module}.{alias.name}" for node in at_once for alias in node.names}
        assert imported & heavy == set(), name

"""The location of the documentation, and imports of scripts outside packages: generator and benchmarks."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def script(folder: Path, name: str) -> ModuleType:
    """Import a module from a folder whose modules import each other by plain names."""
    sys.path.insert(0, str(folder))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(folder))


def generator(name: str) -> ModuleType:
    """Import a module of docs/generator."""
    return script(DOCS / "generator", name)


def benchmark(name: str) -> ModuleType:
    """Import a module of benchmarks."""
    return script(ROOT / "benchmarks", name)

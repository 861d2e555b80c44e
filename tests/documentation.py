"""Where the documentation lies, and scripts that are in no package: its generator's, and the benchmarks."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def script(folder: Path, name: str) -> ModuleType:
    """A module of a folder whose modules find each other by their names alone."""
    sys.path.insert(0, str(folder))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(folder))


def generator(name: str) -> ModuleType:
    """A module of docs/generator."""
    return script(DOCS / "generator", name)


def benchmark(name: str) -> ModuleType:
    """A module of benchmarks."""
    return script(ROOT / "benchmarks", name)

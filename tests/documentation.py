"""Where the documentation lies, and the modules that generate it."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def generator(name: str) -> ModuleType:
    """A module of docs/generator."""
    sys.path.insert(0, str(DOCS / "generator"))
    try:
        return import_module(name)
    finally:
        sys.path.pop(0)

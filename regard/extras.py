"""Packages beyond those that loading, running and drawing need: which extra of the package brings them.

needs("train", "accelerate")      # a ConfigError with the line to type, where Accelerate is not installed
"""

from importlib.util import find_spec
from typing import Literal

from regard.errors import ConfigError

Extra = Literal["train", "export", "hub", "ray", "studio"]


def needs(extra: Extra, *packages: str) -> None:
    """Refuse to go on without these packages."""
    for package in packages:
        if not installed(package):
            raise ConfigError(
                f"{extra}: the package {package!r} is not installed; expected the extra {extra!r}: "
                f'pip install "regard[{extra}]".'
            )


def installed(package: str) -> bool:
    """Whether a package can be imported; nothing of it is."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # ValueError: somebody put None in its place
        return False

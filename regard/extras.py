"""Optional packages, and the extra of regard that installs each.

needs("train", "accelerate")      # ConfigError with the pip command if Accelerate is not installed
"""

from importlib.util import find_spec
from typing import Literal

from regard.errors import ConfigError

Extra = Literal["train", "export", "hub", "ray", "studio"]


def needs(extra: Extra, *packages: str) -> None:
    """Raise ConfigError if one of these packages is not installed."""
    for package in packages:
        if not installed(package):
            raise ConfigError(
                f"{extra}: the package {package!r} is not installed; expected the extra {extra!r}: "
                f'pip install "regard[{extra}]".'
            )


def installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # ValueError: sys.modules has None for it
        return False

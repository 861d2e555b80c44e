"""How results show themselves in a notebook. What draws them lies above the algebra and registers here."""

from collections.abc import Callable
from html import escape
from typing import Any

from regard.errors import RegardError

RENDERERS: list[Callable[[Any], str | None]] = []


def html_of(shown: Any, otherwise: str) -> str:
    """The drawing as HTML; `otherwise` as text where there is none, or where nothing can be looked at."""
    try:
        for render in RENDERERS:
            found = render(shown)
            if found is not None:
                return found
    except RegardError as error:
        otherwise = f"{otherwise}\n{error}"
    return f"<pre>{escape(otherwise)}</pre>"

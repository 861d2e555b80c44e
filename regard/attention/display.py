"""How results display in a notebook. The code that draws them is above the algebra and registers here."""

from collections.abc import Callable
from html import escape
from typing import Any

from regard.errors import RegardError

RENDERERS: list[Callable[[Any], str | None]] = []


def html_of(shown: Any, otherwise: str) -> str:
    """The drawing as HTML; the text `otherwise` if no renderer draws it or the weights cannot be read."""
    try:
        for render in RENDERERS:
            found = render(shown)
            if found is not None:
                return found
    except RegardError as error:
        otherwise = f"{otherwise}\n{error}"
    return f"<pre>{escape(otherwise)}</pre>"

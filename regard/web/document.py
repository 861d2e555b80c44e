"""A self-contained HTML page; its content policy forbids loading anything."""

from collections.abc import Iterable
from html import escape

POLICY = (
    "default-src 'none'; img-src {images}; font-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'"
)


def document(*, title: str, style: str, body: Iterable[str], images: str = "data:") -> str:
    """The page as HTML: `body` are lines of its body, `images` the allowed image sources."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY.format(images=images)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            *body,
            "</body>",
            "</html>",
            "",
        ]
    )

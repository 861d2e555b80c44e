"""The page of a view: one self-contained HTML file that makes no requests."""

from collections.abc import Sequence
from html import escape
from typing import Any

from regard.notebook.layers import Group, Texts
from regard.notebook.tiles import Tile
from regard.web.bundle import VIEWS, as_json, bundle
from regard.web.document import document


def trace_data(groups: Sequence[Group], tiles: dict[str, list[Tile]], texts: Texts) -> dict[str, Any]:
    """The data that `views/trace.js` draws."""
    words: list[list[str]] = []

    def number(found: list[str] | None) -> int:
        if found is None:
            return -1
        if found not in words:
            words.append(found)
        return words.index(found)

    shown = []
    for group in groups:
        layers = []
        for layer, name in zip(group.layers, group.names, strict=True):
            rows, columns = (number(found) for found in texts.of(layer))
            heads = [tile.encoded() for tile in tiles[layer.path]]
            about = {"name": name, "path": layer.path, "shape": [layer.T, layer.S]}
            layers.append(about | {"rows": rows, "columns": columns, "heads": heads})
        shown.append({"name": group.name, "layers": layers})
    return {"groups": shown, "texts": words}


def render_page(data: dict[str, Any], *, title: str, summary: str) -> str:
    """The page as text."""
    style = (VIEWS / "page.css").read_text(encoding="utf-8")
    return document(
        title=title,
        style=style,
        images="data: blob:",
        body=[
            "<main>",
            f'<header><h1>{escape(title)}</h1><p class="summary">{escape(summary)}</p></header>',
            '<div class="card"><div id="view"></div></div>',
            '<noscript><p class="summary">This page needs scripts, which are part of it.</p></noscript>',
            "</main>",
            f'<script type="application/json" id="data">{as_json(data)}</script>',
            f"<script>{{\n{bundle('trace_page')}\nviews.trace_page.start(document);\n}}</script>",
        ],
    )

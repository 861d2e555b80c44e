"""`regard.view`: what every head of a model looked at, on one page."""

import tempfile
import webbrowser
from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.attention.result import AttentionResult
from regard.errors import ConfigError
from regard.integrations.transformers import TracedText
from regard.notebook.layers import Group, Layer, Texts, groups_of, layers_of, texts_of
from regard.notebook.tiles import Tile, pool, tiles_of
from regard.systems.drawable import FRAME, Drawable
from regard.web.bundle import VIEWS, as_json, bundle
from regard.web.document import document

if TYPE_CHECKING:
    from regard.notebook.widget import TraceWidget

LIMIT = 2_000_000  # bytes of a page
FIXED = 160_000  # of them for the script, its escapes in a frame, and a few words
MOST = 2**28  # weights computed just to display a trace in a cell
A_HEAD = 140  # bytes beside the weights of one head


class View(Drawable):
    """The attention of a model; notebooks display it, and there are `.save(path)`, `.open()`, `.widget()`."""

    def __init__(self, layers: Sequence[Layer], texts: Texts, *, limit: int = LIMIT) -> None:
        texts.check(layers)
        self.layers = tuple(layers)
        self.texts = texts
        self.limit = limit

    @cached_property
    def groups(self) -> list[Group]:
        """Layers that belong together."""
        return groups_of(self.layers)

    @cached_property
    def tiles(self) -> dict[str, list[Tile]]:
        """Module path -> its heads, compressed to the bytes left in the page."""
        texts = (self.texts.tokens or (), self.texts.target or ())
        words = sum(len(word.encode()) + 20 for text in texts for word in text)
        room = self.limit - FIXED - A_HEAD * sum(layer.heads for layer in self.layers) - words
        found = tiles_of(self.layers, max(0, room))
        return {layer.path: row for layer, row in zip(self.layers, found, strict=True)}

    @cached_property
    def data(self) -> dict[str, Any]:
        """What `views/trace.js` draws, as JSON."""
        words: list[list[str]] = []

        def number(found: list[str] | None) -> int:
            if found is None:
                return -1
            if found not in words:
                words.append(found)
            return words.index(found)

        shown = []
        for group in self.groups:
            layers = []
            for layer, name in zip(group.layers, group.names, strict=True):
                rows, columns = (number(found) for found in self.texts.of(layer))
                heads = [tile.encoded() for tile in self.tiles[layer.path]]
                about = {"name": name, "path": layer.path, "shape": [layer.T, layer.S]}
                layers.append(about | {"rows": rows, "columns": columns, "heads": heads})
            shown.append({"name": group.name, "layers": layers})
        return {"groups": shown, "texts": words}

    def html(self) -> str:
        """The page as text: self-contained, it makes no requests."""
        title, summary = escape(self.title), escape(self._summary())
        return document(
            title=self.title,
            style=(VIEWS / "page.css").read_text(encoding="utf-8"),
            images="data: blob:",
            body=[
                "<main>",
                f'<header><h1>{title}</h1><p class="summary">{summary}</p></header>',
                '<div class="card"><div id="view"></div></div>',
                '<noscript><p class="summary">This page needs scripts, which are part of it.</p></noscript>',
                "</main>",
                f'<script type="application/json" id="data">{as_json(self.data)}</script>',
                f"<script>{{\n{bundle('trace_page')}\nviews.trace_page.start(document);\n}}</script>",
            ],
        )

    def _summary(self) -> str:
        tokens = self.texts.tokens or ()
        if tokens:
            words = texts_line(tokens)
            target = texts_line(self.texts.target or ())
            return f"{words} → {target}" if target else words
        first, count = self.layers[0], len(self.layers)
        return f"{first.T} queries, {first.S} keys" if count == 1 else f"{count} modules"

    def __repr__(self) -> str:
        heads = sum(layer.heads for layer in self.layers)
        first = self.layers[0]
        return f"<View of {len(self.layers)} modules, {heads} heads, {first.T} × {first.S}>"

    def _repr_html_(self) -> str:
        return FRAME.format(page=escape(self.html()))

    def draw_page(self, path: Path) -> None:
        from regard.viz.files import write_page

        write_page(path, self.html())

    def draw(self, path: Path) -> None:
        """All heads as a grid; a single head with its words."""
        from regard.viz.heatmap import draw_alignment, draw_grid

        first = self.layers[0]
        if len(self.layers) == first.heads == 1 and max(first.T, first.S) <= 150:
            rows, columns = self.texts.of(first)
            draw_alignment(
                first.rows(0, first.T)[0].clip(0),
                columns or [str(s) for s in range(first.S)],
                rows or [str(t) for t in range(first.T)],
                path=path,
            )
            return
        names, maps = [], []
        for group in self.groups:
            for layer, name in zip(group.layers, group.names, strict=True):
                names.append(f"{group.name} {name}" if len(self.groups) > 1 else name)
                maps.append([_small(tile) for tile in self.tiles[layer.path]])
        draw_grid(maps, names, title=self.groups[0].name if len(self.groups) == 1 else "", path=path)

    def open(self) -> Path:
        """Open the page in the browser; return its path."""
        path = self.save(Path(tempfile.mkdtemp(prefix="regard-")) / "attention.html")
        webbrowser.open(path.as_uri())
        return path

    def widget(self) -> "TraceWidget":
        """The view as a widget that asks this process for exact weights; needs `regard[notebook]`."""
        try:
            from regard.notebook.widget import TraceWidget
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"View.widget: the package {error.name!r} is missing; expected anywidget. "
                'Run pip install "regard[notebook]".'
            ) from error
        return TraceWidget(self)


def render(shown: Any) -> str | None:
    """The page of a trace or result in a frame; None if it would take long to compute."""
    found = view(shown)
    if sum(layer.heads * layer.T * layer.S for layer in found.layers) > MOST:
        return None
    return found._repr_html_()


def _small(tile: Tile) -> Any:
    """The tile pooled to at most 96 rows and columns, as shares of the largest weight."""
    size = -(-max(tile.levels.shape) // 96)
    return pool(tile.levels, size) / 255


def texts_line(words: Sequence[str], most: int = 30) -> str:
    """The words as one line, of at most `most` words."""
    line = " ".join(words[:most]).replace(" ##", "").replace("▁", " ").replace("Ġ", " ")
    return " ".join(line.split()) + (" …" if len(words) > most else "")


def view(
    trace: Any,
    tokens: Sequence[str] | None = None,
    target_tokens: Sequence[str] | None = None,
    *,
    batch: int = 0,
    call: int | None = None,
    limit: int = LIMIT,
) -> View:
    """The view of a trace, of what `trace_text` returned, or of one result."""
    if isinstance(trace, TracedText):
        tokens = trace.tokens if tokens is None else tokens
        target_tokens = trace.target_tokens if target_tokens is None else target_tokens
        trace = trace.trace
    if isinstance(trace, AttentionResult):
        trace = {"": [trace]}
    if not isinstance(trace, Mapping):
        raise ConfigError(
            f"view: `trace` has a {type(trace).__name__}; expected what `record(model)` gives, what "
            "`trace_text` returns, or the result of an attention. To draw weights alone, use regard.show."
        )
    return View(layers_of(trace, batch, call), texts_of(tokens, target_tokens), limit=limit)

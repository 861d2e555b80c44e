"""Base class of systems' results: saved as a picture or page, shown in a browser or notebook."""

import sys
import tempfile
import webbrowser
from abc import ABC, abstractmethod
from html import escape
from pathlib import Path

from regard.errors import DataError
from regard.views.shared import draw_figure, is_page
from regard.viz.files import check_ending

ENDINGS = (".png", ".svg", ".html")
# the page is in an iframe, so that its style does not affect the notebook
FRAME = (
    '<iframe srcdoc="{page}" style="width: 100%; height: 24rem; border: 0; color-scheme: light dark" '
    'onload="const page = this.contentDocument; '  # null in a sandbox, where the frame scrolls
    "if (page) this.style.height = page.documentElement.scrollHeight + 8 + 'px'\"></iframe>"
)


class Drawable(ABC):
    """A result that can be drawn: `.show()`, `.save(path)`, and automatically in a notebook."""

    title = "Attention"  # of its page

    def nothing(self, reason: str) -> DataError:
        """The error if there is nothing to draw."""
        return DataError(f"{self!r}: {reason}; nothing can be shown.")

    @abstractmethod
    def draw(self, path: Path) -> None:
        """Draw into a .png or .svg file."""

    def draw_page(self, path: Path) -> None:
        """Write a self-contained page."""
        line = repr(self)
        draw_figure(path, self.draw, title=self.title, summary=line, heading="", alt=line)

    def save(self, path: str | Path) -> Path:
        """Write a .png or .svg picture, or an .html page, and return the path."""
        path = check_ending(f"{type(self).__name__}.save", path, ENDINGS)
        if is_page(path):
            self.draw_page(path)
        else:
            self.draw(path)
        return path

    def show(self) -> None:
        """Show in a notebook below the cell; elsewhere open a page in the browser and print its path."""
        if _in_notebook():
            from IPython.display import display

            display(self)
            return
        path = self.save(Path(tempfile.mkdtemp(prefix="regard-")) / "attention.html")
        print(path)
        webbrowser.open(path.as_uri())

    def _repr_html_(self) -> str:
        try:
            with tempfile.TemporaryDirectory() as folder:
                page = self.save(Path(folder) / "page.html").read_text(encoding="utf-8")
        except DataError:  # there is no attention to draw
            return f"<p>{escape(repr(self))}</p>"
        return FRAME.format(page=escape(page))


def _in_notebook() -> bool:
    """Whether IPython can show HTML: it runs in a kernel, not in a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and getattr(shell, "kernel", None) is not None

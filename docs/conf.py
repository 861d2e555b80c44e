"""Sphinx settings, for both languages. `docs/generate.py` writes the pages that Sphinx reads: `make docs`."""

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform

sys.path.insert(0, str(Path(__file__).parent / "generator"))

from catalogues import SHARED
from chinese_search import SearchChineseByPairs

from regard import __version__
from regard.serve.page import write_page

project = "regard"
author = "The authors of regard"
version = release = __version__
language = "en"
LOCALE = Path(__file__).parent / "locale"
locale_dirs = [
    str(LOCALE),
    "locale",
]  # a page's own messages, then what docs/generate.py compiled for all of them
gettext_compact = False  # one catalogue for each page
gettext_location = False
gettext_last_translator = ""
gettext_language_team = ""

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
templates_path = ["_templates"]
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_block"]
copybutton_exclude = ".linenos, .gp, .go"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "undoc-members": False}
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True
add_module_names = False

smartquotes = False

html_theme = "furo"
html_title = "regard"
html_static_path = ["_static"]
html_css_files = ["regard.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_last_updated_fmt = None
html_theme_options = {"top_of_page_buttons": []}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/language.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}


def plain_docstring(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with Markdown's backticks: make reStructuredText of them."""
    out: list[str] = []
    inside = False
    for line in lines:
        if line.strip():
            indented = line.startswith("    ")
            if indented and not inside:
                out += ["", "::", ""]
            elif inside and not indented:
                out.append("")
            inside = indented
        out.append(line if inside else re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line))
    lines[:] = [line.replace("*", r"\*") if not line.startswith("    ") else line for line in out]


class OptionalMessages(SphinxTransform):
    """A block of the class translation-optional is translated as far as a catalogue has its words; nobody is
    asked for them."""

    default_priority = 15  # before Sphinx looks for messages

    def apply(self, **kwargs: Any) -> None:
        """Hide the text of such blocks when messages are collected."""
        if self.app.builder.name == "gettext":
            for block in self.document.findall(nodes.Element):
                if "translation-optional" in block.get("classes", ()):
                    for text in block.findall(nodes.TextElement):
                        text["translatable"] = False


def note_shared_catalogues(app: Any, page: str, source: list[str]) -> None:
    """A page is read again when what all pages share has changed."""
    for path in LOCALE.glob(f"{app.config.language}/LC_MESSAGES/*.po"):
        if path.stem in SHARED:
            app.env.note_dependency(str(path))


def speak_in_studio(app: Any, page: str, source: list[str]) -> None:
    """A studio that a page embeds speaks the language of the page."""
    language = "zh" if app.config.language.startswith("zh") else "en"
    source[0] = re.sub(r"(try/studio/index\.html)\?embed", rf"\1?lang={language}&embed", source[0])


def add_studio(app: Any, error: Exception | None) -> None:
    """The studio with its kept examples beside the pages, for those that embed it."""
    if error is None and app.builder.format == "html":
        write_page(Path(app.outdir) / "try")


def setup(app: Any) -> None:
    """Register what this project adds to Sphinx."""
    app.add_transform(OptionalMessages)
    app.connect("source-read", note_shared_catalogues)
    app.connect("source-read", speak_in_studio)
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("build-finished", add_studio)
    app.add_search_language(SearchChineseByPairs)

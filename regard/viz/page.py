"""Style and script of the report page: plain, inline, and without a request to any host."""

from pathlib import Path

from regard.web.bundle import bundle

STYLE = "\n" + (Path(__file__).parent / "page.css").read_text(encoding="utf-8")


def script() -> str:
    """The views of `regard/web`, one for each alignment of the page."""
    return f"{{\n{bundle('report')}\nviews.report.start(document);\n}}"

"""What several views share: numbers from the command line, pages around one figure."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory


def whole_number(text: str) -> int | None:
    """A number from 0; None for anything else, and for more digits than any count has."""
    return int(text) if text.isdecimal() and len(text) <= 18 else None


def is_page(out: Path) -> bool:
    """Whether a page is wanted and not a picture."""
    return out.suffix.lower() == ".html"


def draw_figure(
    out: Path, draw: Callable[[Path], object], *, title: str, summary: str, heading: str, alt: str
) -> None:
    """Let `draw` write a picture to `out`, or onto a page there."""
    from regard.viz.report import FigureSection, write_report

    if not is_page(out):
        draw(out)
        return
    with TemporaryDirectory() as folder:
        picture = Path(folder) / "figure.svg"
        draw(picture)
        section = FigureSection(heading, picture.read_bytes(), alt)
    write_report(out, title=title, summary=summary, sections=[section])

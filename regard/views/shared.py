"""Helpers of several views: numbers from the command line, pages around one figure."""

from collections.abc import Callable
from pathlib import Path
from string import ascii_uppercase
from tempfile import TemporaryDirectory

from regard.errors import ConfigError, DataError
from regard.train.run import Run


def whole_number(text: str) -> int | None:
    """Parse a number from 0; None for anything else, and for more digits than any count has."""
    return int(text) if text.isdecimal() and len(text) <= 18 else None


def example_number(text: str | None, count: int, what: str, others: str = "") -> int:
    """The number of the test example to show; 0 by default."""
    number = whole_number(text or "0")
    if number is None or number >= count:
        raise ConfigError(
            f"show: `TEXT` has {text!r}; expected the number of a test {what}, 0 to {count - 1}{others}."
        )
    return number


def letter(number: int) -> str:
    """A name for a class or an action that has none: A, B, …; 26 and beyond are numbers."""
    return ascii_uppercase[number] if number < len(ascii_uppercase) else str(number)


def require_attention(run: Run) -> str:
    """The path of the attention that can be drawn; DataError for a model without one."""
    if run.model.aligner is None:
        raise DataError(
            f"{run.folder}: model is {run.config.model!r}, which has no attention; nothing can be shown."
        )
    return run.model.aligner


def require_picture(out: Path, of: str) -> None:
    """ConfigError for a page, where only pictures are drawn."""
    if out.suffix.lower() not in (".png", ".svg"):
        raise ConfigError(f"show: `--out` has the ending {out.suffix!r}; expected .png or .svg for {of}.")


def is_page(out: Path) -> bool:
    """True if a page is wanted, not a picture."""
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

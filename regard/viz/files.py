"""Writing pictures and pages: by the ending of the name, completely or not at all."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from regard import storage
from regard.errors import ConfigError
from regard.viz.style import DPI, look

PICTURES = (".png", ".svg")


def check_ending(owner: str, path: str | Path, endings: Sequence[str] = PICTURES) -> Path:
    """The path, if its name ends in one of `endings` (in any case)."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        known = " or ".join(endings)
        raise ConfigError(f"{owner}: `path` has the ending '{path.suffix}' ({path.name}); expected {known}.")
    return path


def write_aside(path: Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a file beside `path`, then rename it; a failure leaves what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = storage.aside(path)
    try:
        write(aside)
        aside.replace(path)
    except OSError as error:
        if error.filename == str(aside):  # whoever reads the message has never heard of it
            error.filename = str(path)
        raise
    finally:
        aside.unlink(missing_ok=True)
    return path


def write_page(path: Path, html: str) -> Path:
    """Write a page of HTML, whole or not at all."""
    return write_aside(path, lambda aside: aside.write_text(html, encoding="utf-8", newline="\n"))


def save(figure: Figure, path: Path) -> Path:
    """Write the figure as PNG or SVG; the same figure gives the same bytes. Call inside `look()`."""
    kind = path.suffix.lower().removeprefix(".")
    # dates and versions would make equal pictures differ
    metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    return write_aside(
        path, lambda aside: figure.savefig(aside, format=kind, dpi=DPI, facecolor="white", metadata=metadata)
    )


def draw(owner: str, path: str | Path, words: Iterable[str], compose: Callable[[], Figure]) -> Path:
    """Compose a figure, with fonts that have all letters of its `words`, and write it as PNG or SVG."""
    path = check_ending(owner, path)
    with look(words):
        return save(compose(), path)

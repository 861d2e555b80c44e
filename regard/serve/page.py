"""The page of the studio: files in the package, and a copy of them for any web server."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import ConfigError

if TYPE_CHECKING:
    from starlette.applications import Starlette

WEB = Path(__file__).parents[1] / "web"
PARTS = ("studio", "views", "vendor")
FORWARD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>regard studio</title>
<meta http-equiv="refresh" content="0; url=studio/"></head>
<body><p><a href="studio/">regard studio</a></p></body></html>
"""


def require_page(web: Path = WEB) -> Path:
    """The folder of the page; ConfigError if this copy of regard has none."""
    if not (web / "studio" / "index.html").is_file():
        raise ConfigError(f"studio: {web / 'studio'} has no index.html; expected the page of the studio.")
    return web


def mount(app: "Starlette", web: Path) -> None:
    """Serve the page at /, and next to it what it imports: `../views` of a file at / is /views."""
    from starlette.staticfiles import StaticFiles

    for part in ("views", "vendor"):
        if (web / part).is_dir():
            app.mount(f"/{part}", StaticFiles(directory=web / part), name=part)
    app.mount("/", StaticFiles(directory=web / "studio", html=True), name="page")


def copy_page(folder: Path, web: Path = WEB) -> Path:
    """Copy the page with its precomputed examples into a new folder; returns its index.html."""
    require_page(web)
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"studio: `--static` has {folder}, which is not empty; expected a new folder.")
    write_page(folder, web)
    (folder / "index.html").write_text(FORWARD, encoding="utf-8")
    return folder / "index.html"


def write_page(folder: Path, web: Path = WEB) -> None:
    """Copy the files of the page into a folder, overwriting."""
    for part in PARTS:
        if (web / part).is_dir():
            unneeded = shutil.ignore_patterns("__pycache__", "*.py")
            shutil.copytree(web / part, folder / part, ignore=unneeded, dirs_exist_ok=True)

"""The page of the studio: files of the package, and the same as a folder that any web server can show."""

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
    """The folder of the page; a sentence where this copy of regard has none."""
    if not (web / "studio" / "index.html").is_file():
        raise ConfigError(f"studio: {web / 'studio'} has no index.html; expected the page of the studio.")
    return web


def mount(app: "Starlette", web: Path) -> None:
    """The page at /, what it imports beside it: `../views` of a file at / is /views."""
    from starlette.staticfiles import StaticFiles

    for part in ("views", "vendor"):
        if (web / part).is_dir():
            app.mount(f"/{part}", StaticFiles(directory=web / part), name=part)
    app.mount("/", StaticFiles(directory=web / "studio", html=True), name="page")


def copy_page(folder: Path, web: Path = WEB) -> Path:
    """The page with its precomputed examples as a folder; its first page."""
    require_page(web)
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"studio: `--static` has {folder}, which is not empty; expected a new folder.")
    write_page(folder, web)
    (folder / "index.html").write_text(FORWARD, encoding="utf-8")
    return folder / "index.html"


def write_page(folder: Path, web: Path = WEB) -> None:
    """The files of the page into a folder, over those that are there."""
    for part in PARTS:
        if (web / part).is_dir():
            unneeded = shutil.ignore_patterns("__pycache__", "*.py")
            shutil.copytree(web / part, folder / part, ignore=unneeded, dirs_exist_ok=True)

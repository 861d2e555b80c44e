"""regard studio: opens the page in the browser, with a server behind it. Nothing here imports torch."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.serve import Server
from regard.extras import needs


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME-OR-RUN]...", help="Models to show; default: all in the package."),
    ] = None,
    *,
    server: Server,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    static: Annotated[
        Path | None,
        typer.Option(
            "--static", metavar="DIR", help="Copy the page with precomputed examples to a folder, and stop."
        ),
    ] = None,
) -> None:
    """Open the studio in the browser: use every system and look inside.

    regard studio
    regard studio en-fr runs/rnnsearch-en-fr --no-browser
    regard studio --allow-folder ~/models
    regard studio --static site
    """
    from regard.serve.page import copy_page, require_page

    if static is not None:
        typer.echo(copy_page(static))
        return
    needs("studio", "fastapi", "uvicorn")
    from regard.serve.start import start
    from regard.shipped.find import names as shipped

    settings = server.settings(require_page())

    def ready(address: str) -> None:
        # in the hash, which is sent to no server and written to no log
        address = address if server.token is None else f"{address}#token={server.token}"
        typer.echo(f"studio: {address}", err=True)
        if browser:
            webbrowser.open(address)

    start(settings, names or shipped(), device=server.device, loading=False, ready=ready)

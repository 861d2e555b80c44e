"""regard serve, regard studio: the HTTP server, without and with its page."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.extras import needs

if TYPE_CHECKING:
    from regard.serve.settings import Settings


@dataclass(frozen=True)
class Server:
    """Where the server listens, who has access, and what it serves; each field is an option."""

    host: Annotated[
        str, typer.Option(help="Address to listen on; any other than loopback needs a token.")
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 finds a free one.")] = 8000
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Folder with your runs.")] = Path("runs")
    comparisons: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder that `regard compare` writes to.")
    ] = Path("comparisons")
    folder: Annotated[
        Path | None,
        typer.Option("--allow-folder", metavar="DIR", help="Let clients open the Hugging Face models in it."),
    ] = None
    token: Annotated[
        str | None, typer.Option(envvar="REGARD_TOKEN", help="Token that clients must send.")
    ] = None
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="Another name to accept as `Host`; may be repeated."
        ),
    ] = None
    device: Annotated[str | None, typer.Option(help="Device, such as cpu.")] = None

    def settings(self, page: Path | None = None) -> "Settings":
        """These options as checked settings; `page` is the folder of the studio's page."""
        from regard.serve.settings import Settings

        given = {name: value for name, value in vars(self).items() if name not in ("hosts", "device")}
        return Settings(**given, hosts=tuple(self.hosts or ()), page=page)


def command(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME-OR-RUN...", help="Names from `regard models`, or run folders."),
    ],
    *,
    server: Server,
) -> None:
    """Serve trained models over HTTP as JSON; /docs documents every address.

    regard serve en-fr hull
    regard serve runs/rnnsearch-en-fr --port 9000
    REGARD_TOKEN=$(openssl rand -hex 16) regard serve en-fr --host 0.0.0.0 --allow-host example.org
    """
    needs("studio", "fastapi", "uvicorn")
    from regard.serve.start import start

    start(server.settings(), names, device=server.device, loading=True)

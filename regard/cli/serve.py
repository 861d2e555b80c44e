"""regard serve, regard studio: the HTTP server, without and with its page."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from regard.errors import ConfigError

HostOption = Annotated[
    str, typer.Option("--host", help="Address to listen on; any other than loopback needs a token.")
]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 finds a free one.")]
RunsOption = Annotated[
    Path, typer.Option("--runs", metavar="DIR", help="Folder with your runs, which are listed.")
]
ComparisonsOption = Annotated[
    Path, typer.Option("--comparisons", metavar="DIR", help="The folder that `regard compare` writes to.")
]
FolderOption = Annotated[
    Path | None,
    typer.Option("--allow-folder", metavar="DIR", help="Open Hugging Face models in its subfolders."),
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token", envvar="REGARD_TOKEN", help="Token that clients must send."),
]
AllowOption = Annotated[
    list[str],
    typer.Option("--allow-host", metavar="NAME", help="Another name to accept as `Host`; may be repeated."),
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="Device, such as cpu.")]


def command(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME-OR-RUN...", help="Names from `regard models`, or run folders."),
    ],
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    runs: RunsOption = Path("runs"),
    comparisons: ComparisonsOption = Path("comparisons"),
    allow_folder: FolderOption = None,
    token: TokenOption = None,
    allow_host: AllowOption = [],  # noqa: B006 - Typer reads it
    device: DeviceOption = None,
) -> None:
    """Serve trained models over HTTP as JSON; /docs documents every address.

    regard serve en-fr hull
    regard serve runs/rnnsearch-en-fr --port 9000
    REGARD_TOKEN=$(openssl rand -hex 16) regard serve en-fr --host 0.0.0.0 --allow-host example.org
    """
    check_installed()
    from regard.serve.settings import Settings
    from regard.serve.start import start

    settings = Settings(
        host=host,
        port=port,
        token=token,
        hosts=tuple(allow_host),
        runs=runs,
        comparisons=comparisons,
        folder=allow_folder,
    )
    start(settings, names, device=device, loading=True)


def check_installed() -> None:
    """The packages of the extra `studio` are no part of a plain installation."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise ConfigError("serve: the server is not installed. pip install 'regard[studio]'.")

"""From settings and names to a running server."""

import logging
import os
from collections.abc import Callable, Iterable

import torch
from fastapi import FastAPI

from regard.serve.app import create_app
from regard.serve.logs import log_to_stderr
from regard.serve.metrics import Metrics
from regard.serve.models import Models
from regard.serve.runs import Runs
from regard.serve.server import load_all, make_server, open_socket
from regard.serve.settings import Settings

log = logging.getLogger("regard.serve")


def build(settings: Settings, names: Iterable[str], *, device: str | None = None) -> FastAPI:
    """The application with its models, none of them loaded."""
    metrics, runs = Metrics(), Runs(settings.runs)
    models = Models(names, settings.pace, metrics, runs=runs, device=device)
    return create_app(settings, models, runs, metrics)


def start(
    settings: Settings,
    names: Iterable[str],
    *,
    device: str | None = None,
    loading: bool,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until a signal comes; `ready` is told the address. With `loading`, models are loaded at once.

    One core is left to the server itself: a second thread of PyTorch's would wait for it.
    """
    torch.set_num_threads(max(1, (os.cpu_count() or 1) - 1))
    app = build(settings, names, device=device)
    socket = open_socket(settings)
    port = socket.getsockname()[1]
    log_to_stderr()
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    log.info(
        "serving",
        extra={"host": settings.host, "port": port, "models": [served.name for served in app.state.models]},
    )
    if loading:
        load_all(app)
    if ready is not None:
        ready(f"http://{shown}:{port}/")
    make_server(app, settings).run(sockets=[socket])

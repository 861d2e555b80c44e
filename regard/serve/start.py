"""Starts a server from settings and model names; its log is JSON lines on standard error."""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from regard.serve.opening import Opening
from regard.serve.server import make_server, open_socket
from regard.serve.settings import Settings, is_any

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger("regard.serve")

FIELDS = (  # of the log; never user input
    *("method", "route", "status", "milliseconds", "bytes", "model", "error", "trace"),
    *("host", "port", "models", "seconds", "signal"),
)


def start(
    settings: Settings,
    names: Iterable[str],
    *,
    device: str | None = None,
    loading: bool,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until a signal arrives; `ready` is called with the address. `loading` preloads all models.

    The page is available before torch and the models are. One core is left to the server: another PyTorch
    thread would wait for it.
    """
    names = list(names)

    def load() -> "FastAPI":
        import torch

        from regard.serve.app import create_app

        torch.set_num_threads(max(1, (os.cpu_count() or 1) - 1))
        app = create_app(settings, names, device=device)
        if loading:
            app.state.models.load_all()
        return app

    app = load() if settings.page is None else Opening(settings, settings.page, load)
    socket = open_socket(settings)
    port = socket.getsockname()[1]
    log_to_stderr()
    log.info("serving", extra={"host": settings.host, "port": port, "models": names})
    name = "localhost" if is_any(settings.host) else settings.host  # browsers send it as `Host`
    shown = f"[{name}]" if ":" in name else name
    if ready is not None:
        ready(f"http://{shown}:{port}/")
    server = make_server(app, settings)
    if isinstance(app, Opening):
        app.failed = server.stop
    server.run(sockets=[socket])
    if isinstance(app, Opening):
        app.check()


class JSONLines(logging.Formatter):
    """One line per record."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        made = {
            "time": f"{stamp}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        made |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        return json.dumps(made, ensure_ascii=False)


def log_to_stderr() -> None:
    """Send the server's log to standard error only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)

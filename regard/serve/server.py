"""Uvicorn for the application: closes idle and stuck connections, finishes running requests on SIGTERM."""

import asyncio
import logging
import signal
import socket
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import ConfigError
from regard.serve.settings import Settings

log = logging.getLogger("regard.serve")

HEAD_SECONDS = 10.0  # for receiving the head of a request
KEEP_SECONDS = 10  # that an idle connection stays open
TAKE_SECONDS = 30.0  # for a client to read what was sent


class Impatient(H11Protocol):
    """A connection with timeouts for the head of the next request and for reading an answer."""

    _waiting: asyncio.TimerHandle | None = None
    _sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # pause writing as soon as the client falls behind
        self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        # abort, because close would wait for the client forever
        self._sending = self.loop.call_later(TAKE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._sending)

    def data_received(self, data: bytes) -> None:
        cycle = self.cycle
        super().data_received(data)
        if self.cycle is not cycle:  # the head has arrived
            _cancel(self._waiting)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._waiting)
        _cancel(self._sending)
        super().connection_lost(exc)

    def _wait(self) -> None:
        _cancel(self._waiting)
        self._waiting = self.loop.call_later(HEAD_SECONDS, self.transport.close)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class Server(uvicorn.Server):
    """Tells the application as soon as it must stop, so that endless answers end."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        log.info("stopping", extra={"signal": int(sig)})
        self.config.app.state.stopping = True  # type: ignore[union-attr]
        # not super(): uvicorn raises the signal again at the end, and the exit status would not be 0
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.stop()

    def stop(self) -> None:
        """Finish running requests, then exit."""
        self.should_exit = True


def make_server(app: Any, settings: Settings) -> Server:
    """Build a server that is not running yet."""
    pace = settings.pace
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=Impatient,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_SECONDS,
        limit_concurrency=pace.connections,
        backlog=pace.connections,
        timeout_graceful_shutdown=int(pace.grace),
        h11_max_incomplete_event_size=32_000,
    )
    return Server(config)


def open_socket(settings: Settings) -> socket.socket:
    """A listening socket, on a free port if the port is 0; ConfigError if the address is taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((settings.host.strip("[]"), settings.port))
        opened.listen(settings.pace.connections)  # earlier clients wait until the server runs
    except OSError as error:
        opened.close()
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(
            f"serve: `--host` and `--port` have {settings.host}:{settings.port}, which cannot be opened "
            f"({reason}); expected a free one. 0 finds a port."
        ) from None
    return opened

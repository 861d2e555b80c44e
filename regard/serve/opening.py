"""Serves the files of the page while the models' code is still being imported.

Importing torch, all systems and FastAPI takes seconds. Meanwhile a browser gets the page with its stored
examples; requests for the application wait. The import begins once the page has its files, or if nobody
requests it: serving and importing share one interpreter.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import State

from regard.serve import page
from regard.serve.metrics import Metrics
from regard.serve.security import Guard, Receive, Scope, Send
from regard.serve.settings import Settings

# everything that is not a file of the page
OWN = ("/v1/", "/docs", "/openapi.json", "/metrics", "/healthz", "/readyz")
QUIET, PATIENCE = 0.3, 3.0  # seconds without a file request; seconds until loading begins anyway


class Opening:
    """An ASGI application that loads another one, and serves only the page until then."""

    def __init__(self, settings: Settings, web: Path, load: Callable[[], Starlette]) -> None:
        self.state = State({"stopping": False})
        self.failed: Callable[[], None] = lambda: None  # called if loading fails
        files = Starlette()
        page.mount(files, web)
        self._files, self._load = Guard(files, settings, Metrics()), load
        self._loaded: asyncio.Future[Starlette] | None = None
        self._asked = 0.0  # time of the last file request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        assert self._loaded is not None, "the server starts with the lifespan"
        if self._loaded.done() or scope.get("path", "").startswith(OWN):
            await (await asyncio.shield(self._loaded))(scope, receive, send)
        else:
            self._asked = asyncio.get_running_loop().time()
            await self._files(scope, receive, send)

    async def _load_when_quiet(self) -> Starlette:
        loop = asyncio.get_running_loop()
        self._asked = began = loop.time()
        while loop.time() < min(self._asked + QUIET, began + PATIENCE) and not self.state.stopping:
            await asyncio.sleep(0.02)
        return await loop.run_in_executor(None, self._load)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()  # startup
        self._loaded = asyncio.ensure_future(self._load_when_quiet())
        self._loaded.add_done_callback(self._loading_done)
        await send({"type": "lifespan.startup.complete"})
        await receive()  # shutdown
        with suppress(Exception):  # if loading failed, there is nothing to shut down
            app = await self._loaded
            async with app.router.lifespan_context(app):
                pass
        await send({"type": "lifespan.shutdown.complete"})

    def _loading_done(self, loaded: "asyncio.Future[Any]") -> None:
        if loaded.exception() is not None:
            self.failed()
        else:  # from now on, setting `stopping` affects the application
            loaded.result().state.stopping = self.state.stopping
            self.state = loaded.result().state

    def check(self) -> None:
        """Raise the error that prevented loading, if there is one."""
        if self._loaded is not None and self._loaded.done():
            self._loaded.result()

"""The page at once: its files are served while the code of the models is still being imported.

Importing all systems and FastAPI takes seconds. A browser that asks for the page meanwhile gets it, with its
kept examples; whatever needs the application waits for it.
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

# all that is no file of the page
OWN = ("/v1/", "/docs", "/openapi.json", "/metrics", "/healthz", "/readyz")


class Opening:
    """An application that loads another one, and until then has the page alone."""

    def __init__(self, settings: Settings, web: Path, load: Callable[[], Starlette]) -> None:
        self.state = State({"stopping": False})
        self.failed: Callable[[], None] = lambda: None  # called if the application cannot be loaded
        files = Starlette()
        page.mount(files, web)
        self._files, self._load = Guard(files, settings, Metrics()), load
        self._loaded: asyncio.Future[Starlette] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        assert self._loaded is not None, "the server starts with the lifespan"
        if self._loaded.done() or scope.get("path", "").startswith(OWN):
            await (await asyncio.shield(self._loaded))(scope, receive, send)
        else:
            await self._files(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()  # that the server starts
        self._loaded = asyncio.get_running_loop().run_in_executor(None, self._load)
        self._loaded.add_done_callback(self._settle)
        await send({"type": "lifespan.startup.complete"})
        await receive()  # that it stops
        with suppress(Exception):  # one that could not be loaded has nothing to stop
            app = await self._loaded
            async with app.router.lifespan_context(app):
                pass
        await send({"type": "lifespan.shutdown.complete"})

    def _settle(self, loaded: "asyncio.Future[Any]") -> None:
        if loaded.exception() is not None:
            self.failed()
        else:  # from now on, whoever says that the server stops says it to the application
            loaded.result().state.stopping = self.state.stopping
            self.state = loaded.result().state

    def check(self) -> None:
        """Raise what kept the application from being loaded."""
        if self._loaded is not None and self._loaded.done():
            self._loaded.result()

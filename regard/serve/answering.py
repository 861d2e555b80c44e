"""Turns a worker's result into a response: JSON or server-sent events.

Clients that send `Accept: text/event-stream` to a POST route receive events: `waiting` with the length of
the queue while the request waits, then `result` or `error`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Hashable
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel

from regard.serve.batching import Worker
from regard.serve.models import Models
from regard.serve.problems import Problem

TICK = 1.0  # seconds between `waiting` events
Body = type[BaseModel] | Any


class Answering:
    """What routes need to answer: the request, for headers and disconnection, and the models."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.models: Models = request.app.state.models

    async def __call__(self, kind: str, model: str, key: Hashable, item: Any, size: int = 1) -> Response:
        """A model's answer."""
        return await self.by(self.models.find(model, kind).worker, key, item, size)

    async def by(self, worker: Worker, key: Hashable, item: Any, size: int = 1) -> Response:
        """A worker's answer, as JSON or as events."""
        if "text/event-stream" in self.request.headers.get("accept", ""):
            return StreamingResponse(_events(worker, key, item, size), media_type="text/event-stream")
        return JSONResponse(await self.wait(worker, key, item, size))

    async def wait(self, worker: Worker, key: Hashable, item: Any, size: int = 1) -> Any:
        """A worker's result; cancelled if the client disconnects."""
        work = asyncio.ensure_future(worker.submit(key, item, size))
        left = asyncio.ensure_future(_disconnected(self.request))
        try:
            await asyncio.wait([work, left], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise Problem(499, "cancelled", "The client disconnected before its answer was ready.")
            return work.result()
        finally:
            left.cancel()
            work.cancel()


async def _disconnected(request: Request) -> None:
    """Return when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _events(worker: Worker, key: Hashable, item: Any, size: int) -> AsyncIterator[str]:
    work = asyncio.ensure_future(worker.submit(key, item, size))
    try:
        while not work.done():
            yield event("waiting", {"waiting": worker.waiting})
            await asyncio.wait([work], timeout=TICK)
        try:
            yield event("result", work.result())
        except Problem as problem:
            yield event("error", problem.body()["error"])
    finally:
        work.cancel()


def event(name: str, data: Any) -> str:
    """Format a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


Answer = Annotated[Answering, Depends(Answering)]


def ok(model: Body) -> dict[int | str, dict[str, Any]]:
    """The response schema of a route, for OpenAPI."""
    return {200: {"model": model}}

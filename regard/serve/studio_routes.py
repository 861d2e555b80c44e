"""The routes that need no served model: mechanisms, the user's runs, comparisons and folders."""

import asyncio
import pathlib
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from regard.serve import answers, mechanisms
from regard.serve import requests as given
from regard.serve.answering import TICK, Answer, event, ok
from regard.serve.batching import Worker
from regard.serve.comparisons import describe_comparison, list_comparisons
from regard.serve.folders import Folders
from regard.serve.problems import Problem
from regard.serve.runs import Runs, curve, read_lines, summary

WATCHED = 3600.0  # longest time to follow a run, in seconds
FOLLOWERS = 64  # clients that follow runs at once; leaves connections for the others
Id = Annotated[str, Path(max_length=200, alias="id")]


def library(runs: Runs, folders: Folders) -> Callable[[Hashable, Sequence[Any]], list[Any]]:
    """The computations that need no served model."""
    functions: dict[Hashable, Callable[[Sequence[Any]], list[Any]]] = {
        "mechanism": mechanisms.example,
        "alignment": runs.align,
        "trace": folders.trace,
    }
    return lambda key, items: functions[key](items)


def add_mechanisms(app: FastAPI, library: Worker) -> None:
    """Add the routes of the catalogue."""

    @app.get("/v1/mechanisms", responses=ok(list[answers.MechanismRow]))
    def rows() -> Response:
        """The mechanisms of the catalogue, with the parameters of their examples."""
        return JSONResponse(mechanisms.rows())

    @app.get("/v1/mechanisms/{id}/file", responses=ok(answers.CodeAnswer))
    def code(name: Id) -> Response:
        """The code of a mechanism."""
        return JSONResponse(mechanisms.code(name))

    @app.post("/v1/mechanism", responses=ok(answers.MechanismAnswer))
    async def mechanism(body: given.MechanismRequest, answer: Answer) -> Response:
        """A small example of a mechanism, computed with the given parameters."""
        return await answer.by(library, "mechanism", body)


def add_runs(app: FastAPI, runs: Runs, library: Worker) -> None:
    """Add the routes of runs (`regard train`)."""
    places = asyncio.Semaphore(FOLLOWERS)

    @app.get("/v1/runs", responses=ok(list[answers.RunSummary]))
    def listed() -> Response:
        """The user's runs, the most recently changed first."""
        return JSONResponse(runs.every())

    @app.get("/v1/runs/{id}", responses=ok(answers.RunDescription))
    async def described(
        name: Id, answer: Answer, alignment: Annotated[bool, Query(description="Also that.")] = True
    ) -> Response:
        """A run with its loss curve and the alignment of a sentence under its latest weights."""
        about = await asyncio.to_thread(runs.describe, name)
        found = {"alignment": None}
        if alignment and about["saved"] is not None:
            found = await answer.wait(library, "alignment", name)
        return JSONResponse(about | found)

    @app.get(
        "/v1/runs/{id}/events",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}, "description": "`run`, then `metrics`."}},
    )
    async def followed(name: Id, request: Request) -> Response:
        """A run as server-sent events: `run` first, then `metrics` for new points, until training ends."""
        folder = await asyncio.to_thread(runs.find, name)
        if places.locked():
            crowded = f"{FOLLOWERS} clients are already following runs; try again later."
            raise Problem(429, "too_many", crowded, {"Retry-After": "10"})

        async def lines() -> AsyncIterator[str]:
            offset, end = 0, time.monotonic() + WATCHED
            async with places:
                while True:
                    about = await asyncio.to_thread(summary, folder)
                    new, offset = await asyncio.to_thread(read_lines, folder, offset)
                    yield event("run", about)
                    if new:
                        yield event("metrics", curve(new))
                    training = about is not None and about["status"] == "training"
                    if not training or request.app.state.stopping or time.monotonic() > end:
                        return
                    await asyncio.sleep(TICK)

        return StreamingResponse(lines(), media_type="text/event-stream")


def add_comparisons(app: FastAPI, folder: pathlib.Path) -> None:
    """Add the routes of comparisons (`regard compare`)."""

    @app.get("/v1/comparisons", responses=ok(list[answers.ComparisonSummary]))
    def listed() -> Response:
        """The user's comparisons, the most recently changed first."""
        return JSONResponse(list_comparisons(folder))

    @app.get("/v1/comparisons/{id}", responses=ok(answers.ComparisonAnswer))
    def described(name: Id) -> Response:
        """A comparison, finished or not: each training, its progress and its results."""
        return JSONResponse(describe_comparison(folder, name))


def add_folders(app: FastAPI, folders: Folders, library: Worker) -> None:
    """Add the routes of local transformers models."""

    @app.get("/v1/folders", responses=ok(list[answers.FolderModel]))
    def listed() -> Response:
        """The models in the folder given by `--allow-folder`, if any."""
        return JSONResponse(folders.every())

    @app.post("/v1/trace", responses=ok(answers.TraceAnswer))
    async def traced(body: given.TraceRequest, answer: Answer) -> Response:
        """The attention of every head of such a model."""
        return await answer.by(library, "trace", body)

"""The application: routes, error handlers, and the guard in front of them."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from regard.serve import answers, model_routes, page, studio_routes
from regard.serve.batching import Worker
from regard.serve.folders import Folders
from regard.serve.metrics import Metrics
from regard.serve.models import Models
from regard.serve.problems import Problem, invalid, stopping
from regard.serve.reference import STYLE, reference_page
from regard.serve.runs import Runs
from regard.serve.security import Guard
from regard.serve.settings import Settings

STATUSES = (400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 429, 500, 503, 504)


def create_app(settings: Settings, names: Iterable[str], *, device: str | None = None) -> FastAPI:
    """Build the application and its models, none of them loaded."""
    metrics, runs, folders = Metrics(), Runs(settings.runs), Folders(settings.folder)
    models = Models(names, settings.pace, metrics, runs=runs, device=device)
    library = Worker("library", studio_routes.library(runs, folders), settings.pace, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.stopping = True
        await asyncio.to_thread(models.stop, settings.pace.grace)
        await asyncio.to_thread(library.stop, settings.pace.grace)

    app = FastAPI(
        title="regard",
        version="1",
        description="Attention at work: translate, point, run, ask, caption, classify, sample, score.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses={status: {"model": answers.Error} for status in STATUSES},
    )
    app.state.models, app.state.settings, app.state.stopping = models, settings, False
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    model_routes.add_texts(app)
    model_routes.add_others(app)
    studio_routes.add_mechanisms(app, library)
    studio_routes.add_runs(app, runs, library)
    studio_routes.add_comparisons(app, settings.comparisons)
    studio_routes.add_folders(app, folders, library)
    _state(app, metrics)
    if settings.page is not None:
        page.mount(app, settings.page)
    app.add_middleware(Guard, settings=settings, metrics=metrics)
    return app


TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}, "description": "Text."}}


def _state(app: FastAPI, metrics: Metrics) -> None:
    @app.get("/healthz", response_class=PlainTextResponse, responses=TEXT)
    async def health() -> Response:
        """Liveness: the server is up."""
        return PlainTextResponse("ok\n")

    @app.get("/readyz", response_class=PlainTextResponse, responses=TEXT)
    async def ready(request: Request) -> Response:
        """Readiness: the server is not stopping, and models to be loaded at the start are loaded."""
        if request.app.state.stopping:
            raise stopping()
        if not request.app.state.models.ready:
            raise Problem(503, "loading", "The models are still loading; try again.", {"Retry-After": "1"})
        return PlainTextResponse("ok\n")

    @app.get("/metrics", response_class=PlainTextResponse, responses=TEXT)
    async def counters() -> Response:
        """Counters in the text format of Prometheus."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        return HTMLResponse(reference_page(request.app.openapi()))

    @app.get("/docs.css", include_in_schema=False)
    async def style() -> Response:
        return Response(STYLE, media_type="text/css")


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return JSONResponse(error.body(), error.status, headers=error.headers)


HTTP = {
    400: ("invalid", "The body cannot be read; expected JSON."),
    404: ("not_found", "There is nothing at this address; /docs lists all addresses."),
    405: (
        "wrong_method",
        "This address does not accept this method; /docs lists the methods.",
    ),
}


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, message = HTTP.get(error.status_code, ("error", str(error.detail)))
    return await _problem(request, Problem(error.status_code, code, message, dict(error.headers or {})))


async def _invalid(request: Request, error: Exception) -> Response:
    """The first validation error of a request, as a sentence."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    own = ("str", "list[", "function", "constrained")  # pydantic's names for union members
    place = ".".join(str(part) for part in first["loc"][1:] if not str(part).startswith(own))
    if first["type"] == "json_invalid":
        place = "body"
    return await _problem(request, invalid(f"{place[:100] or 'body'}: {first['msg'].rstrip('.')}."))

"""The routes. Each takes a request that requests.py describes and gives what work.py computes.

Every POST also answers as server-sent events, to whoever sends `Accept: text/event-stream`: `waiting` with
the length of the queue while it waits, then `result` or `error`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from regard import __version__
from regard.serve import requests as given
from regard.serve.metrics import Metrics
from regard.serve.models import Models
from regard.serve.problems import Problem, stopping
from regard.serve.security import Guard
from regard.serve.settings import Settings

TICK = 1.0  # seconds between two events of a request that waits


class Answering:
    """What a route needs to answer: the request, for its headers and its end, and the models."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.models: Models = request.app.state.models

    async def __call__(self, kind: str, model: str, key: Hashable, item: Any) -> Response:
        """The answer of a model, as JSON or as events; a client that leaves gives its place up."""
        worker = self.models.find(model, kind).worker
        work = asyncio.ensure_future(worker.submit(key, item))
        if "text/event-stream" in self.request.headers.get("accept", ""):
            return StreamingResponse(
                _events(self.request, work, lambda: worker.waiting), media_type="text/event-stream"
            )
        left = asyncio.ensure_future(_gone(self.request))
        try:
            await asyncio.wait([work, left], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise Problem(499, "cancelled", "The client left before its answer was ready.")
            return JSONResponse(work.result())
        finally:
            left.cancel()
            work.cancel()


async def _gone(request: Request) -> None:
    """Return when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _events(request: Request, work: "asyncio.Future[Any]", waiting: Any) -> AsyncIterator[str]:
    try:
        while not work.done():
            yield event("waiting", {"waiting": waiting()})
            await asyncio.wait([work], timeout=TICK)
        try:
            yield event("result", work.result())
        except Problem as problem:
            yield event("error", problem.body()["error"])
    finally:
        work.cancel()


def event(name: str, data: Any) -> str:
    """One server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


Answer = Annotated[Answering, Depends(Answering)]


def create_app(settings: Settings, models: Models, metrics: Metrics) -> FastAPI:
    """The application; `settings` decide who may ask."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.stopping = True
        await asyncio.to_thread(models.stop, settings.pace.grace)

    app = FastAPI(
        title="regard",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.models, app.state.settings, app.state.stopping = models, settings, False
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    _systems(app)
    _state(app, models, metrics)
    app.add_middleware(Guard, settings=settings, metrics=metrics)  # type: ignore[arg-type]
    return app


def _systems(app: FastAPI) -> None:
    @app.get("/v1/models")
    async def models(request: Request) -> Response:
        """The models that are served, each with its kind and its limits."""
        served: Models = request.app.state.models
        return JSONResponse([each.describe(served.pace) for each in served])

    @app.post("/v1/translate")
    async def translate(body: given.TranslateRequest, answer: Answer) -> Response:
        """Translations with their alignments; of a given target, its alignment."""
        texts = [body.text] if isinstance(body.text, str) else body.text
        if body.target is not None:
            return await _align(answer, body.model, texts, body.target)
        return await answer("translate", body.model, ("translate", body.beam, body.tree), texts)

    @app.post("/v1/align")
    async def align(body: given.AlignRequest, answer: Answer) -> Response:
        """What the model looks at while it writes a given translation."""
        texts = [body.text] if isinstance(body.text, str) else body.text
        return await _align(answer, body.model, texts, body.target)

    @app.post("/v1/attention")
    async def attention(body: given.AttentionRequest, answer: Answer) -> Response:
        """One head of a Transformer, or all heads of a part."""
        return await answer("translate", body.model, ("attention",), body)

    @app.post("/v1/point")
    async def point(body: given.PointRequest, answer: Answer) -> Response:
        """The order in which a pointer network points at points, and the exact answer."""
        return await answer("point", body.model, ("point", body.beam), body)

    @app.post("/v1/run")
    async def run(body: given.RunRequest, answer: Answer) -> Response:
        """What a Neural Turing Machine writes, and where its heads stood."""
        return await answer("run", body.model, ("run",), body)

    @app.post("/v1/ask")
    async def ask(body: given.AskRequest, answer: Answer) -> Response:
        """An answer from a story, and the sentences that each hop attended to."""
        return await answer("ask", body.model, ("ask",), body)

    @app.post("/v1/caption")
    async def caption(body: given.CaptionRequest, answer: Answer) -> Response:
        """A caption of a picture, with a map for each word."""
        return await answer("caption", body.model, ("caption", body.beam), body)

    @app.get("/v1/caption/example")
    async def caption_example(
        answer: Answer,
        model: Annotated[str, Query(max_length=200)] = "shapes-captions",
        number: Annotated[int, Query(ge=0, le=999)] = 0,
    ) -> Response:
        """A picture of the test set, with its caption."""
        return await answer("caption", model, ("caption_example",), number)

    @app.post("/v1/classify")
    async def classify(body: given.ClassifyRequest, answer: Answer) -> Response:
        """The name of a drawing after labelled ones."""
        return await answer("classify", body.model, ("classify",), body)

    @app.post("/v1/sample")
    async def sample(body: given.SampleRequest, answer: Answer) -> Response:
        """Pictures that a generator draws, and what their places look at."""
        return await answer("sample", body.model, ("sample",), body)

    @app.post("/v1/entail")
    async def entail(body: given.EntailRequest, answer: Answer) -> Response:
        """Whether one sentence follows from another."""
        return await answer("entail", body.model, ("entail",), body)

    @app.post("/v1/score")
    async def score(body: given.ScoreRequest, answer: Answer) -> Response:
        """How likely a sentence is, and what each word looked back at."""
        return await answer("score", body.model, ("score",), body)


async def _align(answer: Answering, model: str, texts: list[str], target: str | list[str]) -> Response:
    targets = [target] if isinstance(target, str) else target
    if len(targets) != len(texts):
        raise Problem(
            422, "invalid", f"target: has {len(targets)} texts and `text` {len(texts)}; expected as many."
        )
    return await answer("translate", model, ("align",), list(zip(texts, targets, strict=True)))


def _state(app: FastAPI, models: Models, metrics: Metrics) -> None:
    @app.get("/healthz")
    async def health() -> Response:
        """That the server is there."""
        return PlainTextResponse("ok\n")

    @app.get("/readyz")
    async def ready(request: Request) -> Response:
        """That it takes requests: it is not stopping, and what was named at its start is loaded."""
        if request.app.state.stopping:
            raise stopping()
        return PlainTextResponse("ok\n")

    @app.get("/metrics")
    async def counters() -> Response:
        """Counters in the text format of Prometheus."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return JSONResponse(error.body(), error.status, headers=error.headers)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: "not_found", 405: "wrong_method", 400: "invalid"}
    messages = {
        404: "There is nothing at this address; /docs lists what there is.",
        405: "This address does not take this method; /docs lists what there is.",
        400: "The body cannot be read; expected JSON.",
    }
    code, message = codes.get(error.status_code, "error"), messages.get(error.status_code, str(error.detail))
    headers = dict(error.headers or {})
    return JSONResponse({"error": {"code": code, "message": message}}, error.status_code, headers=headers)


async def _invalid(request: Request, error: Exception) -> Response:
    """The first thing that is wrong with a request, as a sentence."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(
        str(part) for part in first["loc"][1:] if not str(part).startswith(("list[", "function"))
    )
    message = f"{place[:100] or 'body'}: {first['msg'].rstrip('.')}."
    return JSONResponse({"error": {"code": "invalid", "message": message}}, 422)

"""The routes. Each takes a request that requests.py describes and gives what work.py computes.

Every POST also answers as server-sent events, to whoever sends `Accept: text/event-stream`: `waiting` with
the length of the queue while it waits, then `result` or `error`.

What goes beyond plain translation, pointing and so on:
- Words are the pieces that a model reads and writes; those of byte-pairs keep the space before them.
- `beam` in a request is the number of hypotheses that come back; without it the recipe's beam is searched and
  the best hypothesis comes back alone. `tree: true` adds every continuation that the search kept.
- /v1/attention without `layer` and `head` gives all heads of a part, a byte a weight, for thumbnails.
- /v1/caption/example takes `model` beside `number`, and captions come with the picture that the model saw.
- /v1/sample gives attention for the first `maps` pictures only: a matrix of places × places each.
- /v1/runs/{id}/events sends the lines of metrics.jsonl as they are written.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from regard.serve import answers, mechanisms, page
from regard.serve import requests as given
from regard.serve.batching import Worker
from regard.serve.metrics import Metrics
from regard.serve.models import Models
from regard.serve.problems import Problem, stopping
from regard.serve.reference import STYLE, reference_page
from regard.serve.runs import Runs, curve, read_lines, summary
from regard.serve.security import Guard
from regard.serve.settings import Settings

TICK = 1.0  # seconds between two events of something that waits
WATCHED = 3600.0  # seconds that a run is followed at most
STATUSES = (400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 429, 500, 503, 504)
Body = type[BaseModel] | Any


class Answering:
    """What a route needs to answer: the request, for its headers and its end, and the models."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.models: Models = request.app.state.models

    async def __call__(self, kind: str, model: str, key: Hashable, item: Any, size: int = 1) -> Response:
        """The answer of a model."""
        return await self.by(self.models.find(model, kind).worker, key, item, size)

    async def by(self, worker: Worker, key: Hashable, item: Any, size: int = 1) -> Response:
        """The answer of a worker, as JSON or as events."""
        if "text/event-stream" in self.request.headers.get("accept", ""):
            work = asyncio.ensure_future(worker.submit(key, item, size))
            return StreamingResponse(_events(work, lambda: worker.waiting), media_type="text/event-stream")
        return JSONResponse(await self.wait(worker, key, item, size))

    async def wait(self, worker: Worker, key: Hashable, item: Any, size: int = 1) -> Any:
        """What a worker answers; a client that leaves gives its place up."""
        work = asyncio.ensure_future(worker.submit(key, item, size))
        left = asyncio.ensure_future(_gone(self.request))
        try:
            await asyncio.wait([work, left], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise Problem(499, "cancelled", "The client left before its answer was ready.")
            return work.result()
        finally:
            left.cancel()
            work.cancel()


async def _gone(request: Request) -> None:
    """Return when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _events(work: "asyncio.Future[Any]", waiting: Callable[[], int]) -> AsyncIterator[str]:
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
    runs = Runs(settings.runs)
    library = Worker("library", _library(runs), settings.pace, metrics)

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
    _texts(app)
    _others(app)
    _mechanisms(app, library)
    _runs(app, runs, library)
    _state(app, metrics)
    if settings.page is not None:
        page.mount(app, settings.page)
    app.add_middleware(Guard, settings=settings, metrics=metrics)
    return app


def _library(runs: Runs) -> Callable[[Hashable, Sequence[Any]], list[Any]]:
    """What is computed without a model that is served."""
    functions: dict[Hashable, Callable[[Sequence[Any]], list[Any]]] = {
        "mechanism": mechanisms.example,
        "alignment": runs.align,
    }
    return lambda key, items: functions[key](items)


def _ok(model: Body) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model}}


def _texts(app: FastAPI) -> None:
    @app.get("/v1/models", responses=_ok(list[answers.ModelAnswer]))
    async def models(request: Request) -> Response:
        """The models that are served, each with its kind and its limits."""
        served: Models = request.app.state.models
        return JSONResponse([each.describe(served.pace) for each in served])

    @app.post("/v1/translate", responses=_ok(answers.TranslateAnswer))
    async def translate(body: given.TranslateRequest, answer: Answer) -> Response:
        """Translations with their alignments; of a given target, its alignment."""
        texts = [body.text] if isinstance(body.text, str) else body.text
        if body.target is not None:
            return await _align(answer, body.model, texts, body.target)
        if body.tree and len(texts) > 1:
            raise Problem(
                422, "invalid", f"tree: has true for {len(texts)} texts; expected one text with it."
            )
        key = ("translate", body.beam, body.tree)
        return await answer("translate", body.model, key, texts, len(texts))

    @app.post("/v1/align", responses=_ok(answers.TranslateAnswer))
    async def align(body: given.AlignRequest, answer: Answer) -> Response:
        """What the model looks at while it writes a given translation."""
        texts = [body.text] if isinstance(body.text, str) else body.text
        return await _align(answer, body.model, texts, body.target)

    @app.post("/v1/attention", responses=_ok(answers.AttentionAnswer))
    async def attention(body: given.AttentionRequest, answer: Answer) -> Response:
        """One head of a Transformer, or all heads of a part."""
        return await answer("translate", body.model, ("attention",), body)

    @app.post("/v1/ask", responses=_ok(answers.AskAnswer))
    async def ask(body: given.AskRequest, answer: Answer) -> Response:
        """An answer from a story, and the sentences that each hop attended to."""
        return await answer("ask", body.model, ("ask",), body)

    @app.post("/v1/entail", responses=_ok(answers.EntailAnswer))
    async def entail(body: given.EntailRequest, answer: Answer) -> Response:
        """Whether one sentence follows from another."""
        return await answer("entail", body.model, ("entail",), body)

    @app.post("/v1/score", responses=_ok(answers.ScoreAnswer))
    async def score(body: given.ScoreRequest, answer: Answer) -> Response:
        """How likely a sentence is, and what each word looked back at."""
        return await answer("score", body.model, ("score",), body)


async def _align(answer: Answering, model: str, texts: list[str], target: str | list[str]) -> Response:
    targets = [target] if isinstance(target, str) else target
    if len(targets) != len(texts):
        raise Problem(
            422, "invalid", f"target: has {len(targets)} texts and `text` {len(texts)}; expected as many."
        )
    pairs = list(zip(texts, targets, strict=True))
    return await answer("translate", model, ("align",), pairs, len(pairs))


def _others(app: FastAPI) -> None:
    @app.post("/v1/point", responses=_ok(answers.PointAnswer))
    async def point(body: given.PointRequest, answer: Answer) -> Response:
        """The order in which a pointer network points at points, and the exact answer."""
        return await answer("point", body.model, ("point", body.beam), body)

    @app.post("/v1/run", responses=_ok(answers.RunAnswer))
    async def run(body: given.RunRequest, answer: Answer) -> Response:
        """What a Neural Turing Machine writes, and where its heads stood."""
        return await answer("run", body.model, ("run",), body)

    @app.post("/v1/caption", responses=_ok(answers.CaptionAnswer))
    async def caption(body: given.CaptionRequest, answer: Answer) -> Response:
        """A caption of a picture, with a map for each word."""
        return await answer("caption", body.model, ("caption", body.beam), body)

    @app.get("/v1/caption/example", responses=_ok(answers.CaptionAnswer))
    async def caption_example(
        answer: Answer,
        model: Annotated[str, Query(max_length=200)] = "shapes-captions",
        number: Annotated[int, Query(ge=0, le=999)] = 0,
    ) -> Response:
        """A picture of the test set, with its caption."""
        return await answer("caption", model, ("caption_example",), number)

    @app.post("/v1/classify", responses=_ok(answers.ClassifyAnswer))
    async def classify(body: given.ClassifyRequest, answer: Answer) -> Response:
        """The name of a drawing after labelled ones."""
        return await answer("classify", body.model, ("classify",), body)

    @app.post("/v1/sample", responses=_ok(answers.SampleAnswer))
    async def sample(body: given.SampleRequest, answer: Answer) -> Response:
        """Pictures that a generator draws, and what their places look at."""
        return await answer("sample", body.model, ("sample",), body)


def _mechanisms(app: FastAPI, library: Worker) -> None:
    @app.get("/v1/mechanisms", responses=_ok(list[answers.MechanismRow]))
    async def rows() -> Response:
        """The mechanisms of the catalogue, with the parameters of their examples."""
        return JSONResponse(mechanisms.rows())

    @app.post("/v1/mechanism", responses=_ok(answers.MechanismAnswer))
    async def mechanism(body: given.MechanismRequest, answer: Answer) -> Response:
        """A small example of a mechanism, computed as its parameters say."""
        return await answer.by(library, "mechanism", body)


RunId = Annotated[str, Path(max_length=200, alias="id")]


def _runs(app: FastAPI, runs: Runs, library: Worker) -> None:
    @app.get("/v1/runs", responses=_ok(list[answers.RunSummary]))
    def listed() -> Response:
        """The user's own runs, the one that changed last first."""
        return JSONResponse(runs.every())

    @app.get("/v1/runs/{id}", responses=_ok(answers.RunDescription))
    async def described(
        name: RunId, answer: Answer, alignment: Annotated[bool, Query(description="Also that.")] = True
    ) -> Response:
        """A run with its loss curve and what its latest weights make of a sentence."""
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
    async def followed(name: RunId, request: Request) -> Response:
        """A run as server-sent events: `run` first, `metrics` for new points, until it no longer trains."""
        folder = await asyncio.to_thread(runs.find, name)

        async def lines() -> AsyncIterator[str]:
            offset, end = 0, time.monotonic() + WATCHED
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


TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}, "description": "Text."}}


def _state(app: FastAPI, metrics: Metrics) -> None:
    @app.get("/healthz", response_class=PlainTextResponse, responses=TEXT)
    async def health() -> Response:
        """That the server is there."""
        return PlainTextResponse("ok\n")

    @app.get("/readyz", response_class=PlainTextResponse, responses=TEXT)
    async def ready(request: Request) -> Response:
        """That it takes requests: it is not stopping, and what was named at its start is loaded."""
        if request.app.state.stopping:
            raise stopping()
        if not request.app.state.models.ready:
            raise Problem(503, "loading", "Models are being loaded; try again.", {"Retry-After": "1"})
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
    404: ("not_found", "There is nothing at this address; /docs lists what there is."),
    405: ("wrong_method", "This address does not take this method; /docs lists what there is."),
}


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, message = HTTP.get(error.status_code, ("error", str(error.detail)))
    body = {"error": {"code": code, "message": message}}
    return JSONResponse(body, error.status_code, headers=dict(error.headers or {}))


async def _invalid(request: Request, error: Exception) -> Response:
    """The first thing that is wrong with a request, as a sentence."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    own = ("str", "list[", "function", "constrained")  # pydantic's names of the types that a field may have
    place = ".".join(str(part) for part in first["loc"][1:] if not str(part).startswith(own))
    if first["type"] == "json_invalid":
        place = "body"
    message = f"{place[:100] or 'body'}: {first['msg'].rstrip('.')}."
    return JSONResponse({"error": {"code": "invalid", "message": message}}, 422)

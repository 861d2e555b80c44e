"""The routes of the models. Each takes a request that requests.py describes, and gives what work.py computes.

- Words are the pieces that a model reads and writes; those of byte-pairs keep the space before them.
- `beam` in a request is the number of hypotheses that come back; without it the recipe's beam is searched and
  the best hypothesis comes back alone. `tree: true` adds every continuation that the search kept.
- /v1/attention without `layer` and `head` gives all heads of a part, a byte a weight, for thumbnails.
- /v1/caption/example takes `model` beside `number`, and captions come with the picture that the model saw.
- /v1/sample gives attention for the first `maps` pictures only: a matrix of places × places each.
"""

import asyncio
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response

from regard.serve import answers
from regard.serve import requests as given
from regard.serve.answering import Answer, Answering, ok
from regard.serve.models import Models
from regard.serve.problems import invalid


def add_texts(app: FastAPI) -> None:
    """Models that read text."""

    @app.get("/v1/models", responses=ok(list[answers.ModelAnswer]))
    async def models(request: Request) -> Response:
        """The models that are served, each with its kind and its limits."""
        served: Models = request.app.state.models
        return JSONResponse(await asyncio.to_thread(served.describe))

    @app.post("/v1/translate", responses=ok(answers.TranslateAnswer))
    async def translate(body: given.TranslateRequest, answer: Answer) -> Response:
        """Translations with their alignments; of a given target, its alignment."""
        texts = _several(body.text)
        if body.target is not None:
            return await _align(answer, body.model, texts, _several(body.target))
        if body.tree and len(texts) > 1:
            raise invalid(f"tree: has true for {len(texts)} texts; expected one text with it.")
        key = ("translate", body.beam, body.tree)
        return await answer("translate", body.model, key, texts, len(texts))

    @app.post("/v1/align", responses=ok(answers.TranslateAnswer))
    async def align(body: given.AlignRequest, answer: Answer) -> Response:
        """What the model looks at while it writes a given translation."""
        return await _align(answer, body.model, _several(body.text), _several(body.target))

    @app.post("/v1/attention", responses=ok(answers.AttentionAnswer))
    async def attention(body: given.AttentionRequest, answer: Answer) -> Response:
        """One head of a Transformer, or all heads of a part."""
        return await answer("translate", body.model, ("attention",), body)

    @app.post("/v1/ask", responses=ok(answers.AskAnswer))
    async def ask(body: given.AskRequest, answer: Answer) -> Response:
        """An answer from a story, and the sentences that each hop attended to."""
        return await answer("ask", body.model, ("ask",), body)

    @app.post("/v1/entail", responses=ok(answers.EntailAnswer))
    async def entail(body: given.EntailRequest, answer: Answer) -> Response:
        """Whether one sentence follows from another."""
        return await answer("entail", body.model, ("entail",), body)

    @app.post("/v1/score", responses=ok(answers.ScoreAnswer))
    async def score(body: given.ScoreRequest, answer: Answer) -> Response:
        """How likely a sentence is, and what each word looked back at."""
        return await answer("score", body.model, ("score",), body)


def _several(text: str | list[str]) -> list[str]:
    return [text] if isinstance(text, str) else text


async def _align(answer: Answering, model: str, texts: list[str], targets: list[str]) -> Response:
    if len(targets) != len(texts):
        raise invalid(f"target: has {len(targets)} texts and `text` {len(texts)}; expected as many.")
    pairs = list(zip(texts, targets, strict=True))
    return await answer("translate", model, ("align",), pairs, len(pairs))


def add_others(app: FastAPI) -> None:
    """Points, bits and pictures."""

    @app.post("/v1/point", responses=ok(answers.PointAnswer))
    async def point(body: given.PointRequest, answer: Answer) -> Response:
        """The order in which a pointer network points at points, and the exact answer."""
        return await answer("point", body.model, ("point", body.beam), body)

    @app.post("/v1/run", responses=ok(answers.RunAnswer))
    async def run(body: given.RunRequest, answer: Answer) -> Response:
        """What a Neural Turing Machine writes, and where its heads stood."""
        return await answer("run", body.model, ("run",), body)

    @app.post("/v1/caption", responses=ok(answers.CaptionAnswer))
    async def caption(body: given.CaptionRequest, answer: Answer) -> Response:
        """A caption of a picture, with a map for each word."""
        return await answer("caption", body.model, ("caption", body.beam), body)

    @app.get("/v1/caption/example", responses=ok(answers.CaptionAnswer))
    async def caption_example(
        answer: Answer,
        model: Annotated[str, Query(max_length=200)] = "shapes-captions",
        number: Annotated[int, Query(ge=0, le=999)] = 0,
    ) -> Response:
        """A picture of the test set, with its caption."""
        return await answer("caption", model, ("caption_example",), number)

    @app.post("/v1/classify", responses=ok(answers.ClassifyAnswer))
    async def classify(body: given.ClassifyRequest, answer: Answer) -> Response:
        """The name of a drawing after labelled ones."""
        return await answer("classify", body.model, ("classify",), body)

    @app.post("/v1/sample", responses=ok(answers.SampleAnswer))
    async def sample(body: given.SampleRequest, answer: Answer) -> Response:
        """Pictures that a generator draws, and what their places look at."""
        return await answer("sample", body.model, ("sample",), body)

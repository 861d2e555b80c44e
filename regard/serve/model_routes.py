"""The routes of the models. Requests are defined in requests.py, and work.py computes the answers.

- Words are the model's subwords; byte-pair subwords include their leading space.
- `beam` in a request is the number of hypotheses returned; without it, the search uses the recipe's beam and
  returns only the best. `tree: true` adds every continuation that the search kept.
- /v1/attention without `layer` and `head` returns all heads of a part, one byte per weight, for thumbnails.
- /v1/caption/example takes `model` and `number`; captions come with the picture that the model saw.
- /v1/sample returns attention for the first `maps` pictures only: a matrix of positions × positions each.
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
    """Add the routes of models that read text."""

    @app.get("/v1/models", responses=ok(list[answers.ModelAnswer]))
    async def models(request: Request) -> Response:
        """The served models, with kinds and limits."""
        served: Models = request.app.state.models
        return JSONResponse(await asyncio.to_thread(served.describe))

    @app.post("/v1/translate", responses=ok(answers.TranslateAnswer))
    async def translate(body: given.TranslateRequest, answer: Answer) -> Response:
        """Translate texts with alignments; with `target`, align that translation instead."""
        texts = _several(body.text)
        if body.target is not None:
            return await _align(answer, body.model, texts, _several(body.target))
        if body.tree and len(texts) > 1:
            raise invalid(f"tree: has true for {len(texts)} texts; expected one text with it.")
        key = ("translate", body.beam, body.tree)
        return await answer("translate", body.model, key, texts, len(texts))

    @app.post("/v1/align", responses=ok(answers.TranslateAnswer))
    async def align(body: given.AlignRequest, answer: Answer) -> Response:
        """The attention of the model while it writes a given translation."""
        return await _align(answer, body.model, _several(body.text), _several(body.target))

    @app.post("/v1/attention", responses=ok(answers.AttentionAnswer))
    async def attention(body: given.AttentionRequest, answer: Answer) -> Response:
        """One head of a Transformer, or all heads of a part."""
        return await answer("translate", body.model, ("attention",), body)

    @app.post("/v1/ask", responses=ok(answers.AskAnswer))
    async def ask(body: given.AskRequest, answer: Answer) -> Response:
        """Answer a question about a story, with the sentences that each hop attended to."""
        return await answer("ask", body.model, ("ask",), body)

    @app.post("/v1/entail", responses=ok(answers.EntailAnswer))
    async def entail(body: given.EntailRequest, answer: Answer) -> Response:
        """Whether one sentence follows from another."""
        return await answer("entail", body.model, ("entail",), body)

    @app.post("/v1/score", responses=ok(answers.ScoreAnswer))
    async def score(body: given.ScoreRequest, answer: Answer) -> Response:
        """How likely a sentence is, and what each word attended to."""
        return await answer("score", body.model, ("score",), body)


def _several(text: str | list[str]) -> list[str]:
    return [text] if isinstance(text, str) else text


async def _align(answer: Answering, model: str, texts: list[str], targets: list[str]) -> Response:
    if len(targets) != len(texts):
        raise invalid(f"target: has {len(targets)} texts and `text` {len(texts)}; expected as many.")
    pairs = list(zip(texts, targets, strict=True))
    return await answer("translate", model, ("align",), pairs, len(pairs))


def add_others(app: FastAPI) -> None:
    """Add the routes of models for points, bits and pictures."""

    @app.post("/v1/point", responses=ok(answers.PointAnswer))
    async def point(body: given.PointRequest, answer: Answer) -> Response:
        """The order in which a pointer network visits points, and the exact answer."""
        return await answer("point", body.model, ("point", body.beam), body)

    @app.post("/v1/run", responses=ok(answers.RunAnswer))
    async def run(body: given.RunRequest, answer: Answer) -> Response:
        """The output of a Neural Turing Machine, and the positions of its heads."""
        return await answer("run", body.model, ("run",), body)

    @app.post("/v1/caption", responses=ok(answers.CaptionAnswer))
    async def caption(body: given.CaptionRequest, answer: Answer) -> Response:
        """Caption a picture, with a map per word."""
        return await answer("caption", body.model, ("caption", body.beam), body)

    @app.get("/v1/caption/example", responses=ok(answers.CaptionAnswer))
    async def caption_example(
        answer: Answer,
        model: Annotated[str, Query(max_length=200)] = "shapes-captions",
        number: Annotated[int, Query(ge=0, le=999)] = 0,
    ) -> Response:
        """A picture of the test set and its caption."""
        return await answer("caption", model, ("caption_example",), number)

    @app.post("/v1/classify", responses=ok(answers.ClassifyAnswer))
    async def classify(body: given.ClassifyRequest, answer: Answer) -> Response:
        """Classify a drawing, given labelled examples."""
        return await answer("classify", body.model, ("classify",), body)

    @app.post("/v1/sample", responses=ok(answers.SampleAnswer))
    async def sample(body: given.SampleRequest, answer: Answer) -> Response:
        """Generate pictures, with the attention of their positions."""
        return await answer("sample", body.model, ("sample",), body)

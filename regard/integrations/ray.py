"""Translators for Ray: for `ray.data.Dataset.map_batches`, and as a deployment of Ray Serve.

    texts = ray.data.read_text("corpus")                      # a column `text`
    translated = texts.map_batches(
        Translate,
        fn_constructor_kwargs={"run": "en-fr"},
        compute=ray.data.ActorPoolStrategy(size=2),
        batch_size=1024,
    )
    translated.write_parquet("translated")                    # text, translation

    serve.run(deployment("en-fr", num_replicas=2))
    curl -d '{"text": "The cat sleeps."}' http://localhost:8000/

Ray starts the processes, assigns GPUs (`num_gpus=1`) and threads, and repeats the work of a killed process.
A run must be on storage that every machine sees; a model of `regard models` or of the Hub need not be.
"""

import asyncio
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.extras import needs
from regard.shipped.find import find_run
from regard.translate.answers import LineTranslator, Options

if TYPE_CHECKING:
    from starlette.requests import Request

log = logging.getLogger("regard")


class Translate:
    """Adds a column of translations to batches of texts; empty for a text that cannot be translated."""

    def __init__(
        self,
        run: str | Path,
        *,
        column: str = "text",
        into: str = "translation",
        beam: int | None = None,
        unknown: str = "copy",
    ) -> None:
        self.column, self.into = column, into
        self._translate = LineTranslator(Options(find_run(run), beam=beam, unknown=unknown))

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Translate a batch in Ray's format "numpy"."""
        texts = [_one_line(text) for text in batch[self.column]]
        answers = self._translate(texts)
        for answer in answers:
            if answer.refused:
                log.warning("a text %s", answer.complaint)
        return {**batch, self.into: np.array([answer.text for answer in answers], dtype=object)}


def deployment(
    run: str | Path, *, beam: int | None = None, unknown: str = "copy", batch: int = 64, **options: Any
) -> Any:
    """An application for `serve.run`; `options` are those of `serve.deployment`, such as num_replicas.

    Concurrent texts are translated together, `batch` at most. Over HTTP, requests and answers are JSON:
    {"text": …} becomes {"translation": …}; a handle calls `translate`.
    """
    needs("ray", "ray")
    from ray import serve

    @serve.deployment(**options)
    class TranslatorDeployment:
        def __init__(self) -> None:
            self._translate = LineTranslator(Options(find_run(run), beam=beam, unknown=unknown))

        @serve.batch(max_batch_size=batch)  # type: ignore[untyped-decorator]
        async def translate(self, texts: list[str]) -> list[str]:
            lines = [_one_line(text) for text in texts]
            answers = await asyncio.to_thread(self._translate, lines)  # keeps answering health checks
            return [answer.text for answer in answers]

        async def __call__(self, request: "Request") -> Any:
            from starlette.responses import JSONResponse

            try:
                text = json.loads(await request.body())["text"]
            except (ValueError, KeyError, TypeError):
                text = None
            if not isinstance(text, str):
                return JSONResponse({"error": 'expected JSON: {"text": "…"}.'}, status_code=422)
            return {"translation": await self.translate(text)}

    return TranslatorDeployment.bind()  # type: ignore[attr-defined]


def _one_line(text: object) -> str:
    return " ".join(str(text).split())

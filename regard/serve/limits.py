"""Limits on requests. /v1/models reports them, so that a page can show them beforehand.

Status codes: 413 for a body that is too large, 422 for values beyond a limit, 429 for a full queue, 503 while
the server is stopping, 504 for work that takes too long.
"""

from dataclasses import dataclass
from typing import Any

BODY = 1_000_000  # bytes of a request body
PICTURE_BODY = 8_000_000  # bytes of a body with a picture
CHARACTERS = 2_000  # in a text, a sentence or a question
TEXTS = 64  # per request
PIECES = 150  # subwords in a text
ALL_PIECES = 1_500  # subwords in all texts of a request
BEAM = 16
POINTS = 200  # per set
ROWS = 128  # vectors of bits, or items
SENTENCES = 200  # in a story
PIXELS = 16_000_000
SCANS = 30  # of a progressive JPEG: each costs as much as decoding the whole picture
FORMATS = ("PNG", "JPEG")
DRAWINGS = 100  # labelled examples
DRAWING_SIDE = 28
SAMPLES = 64
SHOWN = 8  # samples whose attention is returned
ROW_WIDTH = 32  # bits per vector
ITEM = 16  # vectors per item
LABEL = 100  # characters of a class name
TRACE_PIECES = 512  # subwords in a text for a transformers model
TRACE_BYTES = 2_000_000  # of a trace; larger ones are pooled
RUN_POINTS = 2_000  # of a loss curve; longer curves are thinned


@dataclass(frozen=True)
class Pace:
    """Time limits and queue sizes."""

    seconds: float = 30.0  # from the arrival of a request to its answer
    body_seconds: float = 10.0  # for receiving a body
    waiting: int = 256  # queue length of a model
    batch: int = 64  # most requests in a batch
    linger: float = 0.003  # a batch starts after this many seconds without a new request
    longest_linger: float = 0.025  # and after this many in any case
    connections: int = 512
    grace: float = 30.0  # seconds to finish running requests when the server stops


LIMITS: dict[str, dict[str, Any]] = {
    "translate": {
        "characters": CHARACTERS,
        "texts": TEXTS,
        "pieces": PIECES,
        "all_pieces": ALL_PIECES,
        "beam": BEAM,
    },
    "point": {"points": POINTS, "beam": BEAM},
    "run": {"rows": ROWS},
    "ask": {"sentences": SENTENCES, "characters": CHARACTERS},
    "caption": {"pixels": PIXELS, "formats": list(FORMATS), "beam": BEAM},
    "classify": {"drawings": DRAWINGS, "side": DRAWING_SIDE},
    "sample": {"count": SAMPLES, "maps": SHOWN},
    "entail": {"characters": CHARACTERS},
    "score": {"characters": CHARACTERS},
}


def limits_of(kind: str, pace: Pace) -> dict[str, Any]:
    """The limits that /v1/models reports for a model."""
    body = PICTURE_BODY if kind == "caption" else BODY
    return LIMITS[kind] | {"bytes": body, "seconds": pace.seconds, "waiting": pace.waiting}

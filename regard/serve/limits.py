"""What a client may ask for at most. /v1/models reports these, so that a page can say so beforehand.

A body that is too large is answered with 413, values beyond a limit with 422, a full queue with 429, a server
that is stopping with 503, work that took too long with 504.
"""

from dataclasses import dataclass
from typing import Any

BODY = 1_000_000  # bytes of a request
PICTURE_BODY = 8_000_000  # of a request with a picture in it
CHARACTERS = 2_000  # of a text, a sentence or a question
TEXTS = 64  # of one request
PIECES = 150  # of a text, once the tokenizer has cut it
ALL_PIECES = 1_500  # of all texts of a request
BEAM = 16
POINTS = 200  # of a set
SETS = 64  # point sets, bit sequences, drawings to be named of one request
ROWS = 128  # vectors of bits, or items
SENTENCES = 200  # of a story
PIXELS = 16_000_000
SCANS = 30  # of a progressive JPEG: each is as much work as the whole picture
FORMATS = ("PNG", "JPEG")
DRAWINGS = 100  # labelled ones
DRAWING_SIDE = 28
SAMPLES = 64
SHOWN = 8  # samples whose attention is returned
ROW_WIDTH = 32  # bits of a vector
ITEM = 16  # vectors of an item
LABEL = 100  # characters of the name of a class
TRACE_PIECES = 512  # of a text that a model of transformers reads
TRACE_BYTES = 2_000_000  # of the answer; larger traces are pooled
RUN_POINTS = 2_000  # of a loss curve; longer ones are thinned


@dataclass(frozen=True)
class Pace:
    """How long and how much may wait and be computed."""

    seconds: float = 30.0  # from the arrival of a request to its answer
    body_seconds: float = 10.0  # for a client to send its body
    waiting: int = 256  # requests in the queue of a model
    batch: int = 64  # requests computed at once
    linger: float = 0.003  # seconds without a new request after which a batch begins
    longest_linger: float = 0.025  # seconds after which it begins in any case
    connections: int = 512
    grace: float = 30.0  # seconds for what runs when the server is told to stop


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
    """What /v1/models says of a model."""
    body = PICTURE_BODY if kind == "caption" else BODY
    return LIMITS[kind] | {"bytes": body, "seconds": pace.seconds, "waiting": pace.waiting}

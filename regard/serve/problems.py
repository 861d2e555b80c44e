"""Errors as a status, a code and one sentence."""

import json
from typing import Any


class Problem(Exception):
    """An error answer: `{"error": {"code", "message"}}`."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers or {}

    def body(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message}}

    def bytes(self) -> bytes:
        return json.dumps(self.body(), ensure_ascii=False).encode("utf-8", "replace")


def invalid(message: str) -> Problem:
    """A request with an impossible value."""
    return Problem(422, "invalid", message)


def full(waiting: int) -> Problem:
    """The queue is full."""
    return Problem(
        429, "queue_full", f"{waiting} requests wait for this model already; try again.", {"Retry-After": "1"}
    )


def stopping() -> Problem:
    """The server is shutting down."""
    return Problem(503, "stopping", "The server is stopping; try again later.", {"Retry-After": "5"})


def too_slow(seconds: float) -> Problem:
    """The time limit is over."""
    return Problem(504, "timeout", f"There was no answer within {seconds:g} seconds; ask for less.")


def failed() -> Problem:
    """An internal error."""
    return Problem(500, "failed", "The server failed at this request; its log says where.")


def deadly() -> Problem:
    """A request that kills the thread computing it."""
    return Problem(500, "failed", "The worker died whenever it computed this request; it is not tried again.")


def unknown_model(name: str, known: list[str]) -> Problem:
    """No served model has this name."""
    listed = ", ".join(known) or "none"
    return Problem(404, "unknown_model", f"model: has {name[:80]!r}; expected one of: {listed}.")

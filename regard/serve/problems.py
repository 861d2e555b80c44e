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


def stopping() -> Problem:
    """The server is shutting down."""
    return Problem(503, "stopping", "The server is stopping; try again later.", {"Retry-After": "5"})


def failed(message: str = "The server failed while it computed this request; see its log.") -> Problem:
    """An internal error."""
    return Problem(500, "failed", message)


def unknown_model(name: str, known: list[str]) -> Problem:
    """No served model has this name."""
    listed = ", ".join(known) or "none"
    return Problem(404, "unknown_model", f"model: has {name[:80]!r}; expected one of: {listed}.")

"""Checks on every request before a route sees it, as one ASGI middleware.

`Host` must be a known name, also on loopback, which defeats DNS rebinding (another site's name that was made
to point here). A request with an `Origin` must come from this server's page, and so must one for /v1 or
/metrics with `Sec-Fetch-Site`. If a token is set, /v1 and /metrics require `Authorization: Bearer …`. Bodies
are read here, with limits on size and time. Every answer has headers that keep a browser from loading
external resources and from showing it in a frame.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from regard.serve.limits import BODY, PICTURE_BODY
from regard.serve.metrics import Metrics
from regard.serve.problems import Problem, failed
from regard.serve.settings import Settings

log = logging.getLogger("regard.serve")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; worker-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
PROTECTED = ("/v1/", "/metrics")
LARGE = ("/v1/caption",)


class Guard:
    """The middleware."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # web sockets are not supported
            await send({"type": "websocket.close", "code": 1008})
            return
        began, answer = time.monotonic(), _Answer(send)
        try:
            check_host(scope, self.settings)
            check_origin(scope)
            check_token(scope, self.settings)
            check_content(scope)
            body = await read_body(scope, receive, self.settings.pace.body_seconds)
            await self.app(scope, _replay(body, receive), answer.send)
        except Problem as problem:
            await answer.problem(problem)
        except Exception as error:
            log.error("a request failed", extra={"error": type(error).__name__})
            await answer.problem(failed())
        finally:
            self._note(scope, answer, time.monotonic() - began)

    def _note(self, scope: Scope, answer: "_Answer", seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "other"
        self.metrics.request(route, answer.status, seconds)
        log.info(
            "request",
            extra={
                "method": scope["method"],
                "route": route,  # not the path, which may contain user input
                "status": answer.status,
                "milliseconds": round(1000 * seconds, 1),
                "bytes": answer.bytes,
            },
        )


class _Answer:
    """Adds the headers to a response, and records its status and size."""

    def __init__(self, send: Send) -> None:
        self._send, self.status, self.bytes = send, 499, 0  # 499: the client left before the answer

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name.lower() for name, _ in message.get("headers", [])}
            own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            if b"cache-control" not in given:
                own.append((b"cache-control", b"no-cache" if b"etag" in given else b"no-store"))
            message = {**message, "headers": [*message.get("headers", []), *own]}
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
        await self._send(message)

    async def problem(self, problem: Problem) -> None:
        if self.status != 499:  # the answer has begun; it can only be aborted
            raise RuntimeError("the answer has begun") from None
        body = problem.bytes()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **problem.headers}
        encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": problem.status, "headers": encoded})
        await self.send({"type": "http.response.body", "body": body})


def check_host(scope: Scope, settings: Settings) -> None:
    """Require exactly one `Host` header, with a known name."""
    hosts = Headers(scope=scope).getlist("host")
    name = _hostname(hosts[0]) if len(hosts) == 1 else None
    if name is None or name not in settings.allowed:
        raise Problem(
            421,
            "wrong_host",
            "Host: has a name that is not this server's; expected localhost, or one of --allow-host.",
        )


def check_origin(scope: Scope) -> None:
    """Browsers send a request's origin: require our own page. Other programs send none."""
    headers = Headers(scope=scope)
    site = headers.get("sec-fetch-site")
    foreign = any(urlsplit_host(each) != headers["host"].lower() for each in headers.getlist("origin"))
    if scope["method"] not in ("GET", "HEAD") or scope["path"].startswith(PROTECTED):
        foreign = foreign or site not in (None, "same-origin", "none")
    if foreign:
        raise Problem(403, "wrong_origin", "Origin: has another site; expected a page of this server.")


def check_token(scope: Scope, settings: Settings) -> None:
    """Check the token in constant time; the page and its files need none."""
    path = scope["path"]
    if settings.token is None or not path.startswith(PROTECTED):
        return
    given = Headers(scope=scope).get("authorization", "")
    scheme, _, token = given.partition(" ")
    same = hmac.compare_digest(token.strip().encode("latin-1"), settings.token.encode("ascii"))
    if scheme.lower() != "bearer" or not same:
        raise Problem(
            401,
            "wrong_token",
            "Authorization: has no valid token; expected `Bearer TOKEN`.",
            {"WWW-Authenticate": "Bearer"},
        )


def check_content(scope: Scope) -> None:
    """Require JSON: a form on another site can post text, but not JSON without a preflight request."""
    if scope["method"] != "POST":
        return
    kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "wrong_type", "Content-Type: is not JSON; expected application/json.")


async def read_body(scope: Scope, receive: Receive, seconds: float) -> bytes:
    """The whole body; 413 if it is or claims to be too large, 408 if it arrives too slowly."""
    if scope["method"] in ("GET", "HEAD"):
        return b""
    limit = PICTURE_BODY if scope["path"] in LARGE else BODY
    said = Headers(scope=scope).get("content-length")
    if said is not None and said.isdigit() and int(said) > limit:
        raise _too_large(limit)
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "disconnected", "The client left before it had sent its request.")
                part = message.get("body", b"")
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise Problem(
            408, "slow_body", f"The body did not arrive within {seconds:g} seconds.", {"Connection": "close"}
        ) from None


def _too_large(limit: int) -> Problem:
    return Problem(
        413, "too_large", f"The body is too large; expected {limit:,} bytes at most.", {"Connection": "close"}
    )


def _replay(body: bytes, receive: Receive) -> Receive:
    """Replay the body, then pass on later messages (the disconnection)."""
    replayed = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def again() -> Message:
        return next(replayed, None) or await receive()

    return again


def _hostname(host: str) -> str | None:
    """The name in a `Host` header without its port; None if it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    more = parts.path or parts.query or parts.fragment
    return None if parts.username is not None or more else parts.hostname


def urlsplit_host(origin: str) -> str | None:
    """`name:port` of an `Origin`; None for others, such as `null`."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in ("http", "https") else None

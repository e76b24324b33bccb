"""The HTTP face of a console: the routes of the table of calls, pages, and the live tail.

Every route is a GET that reads, but for `POST /login`, which changes a cookie and nothing else. A
request without a token is answered by `/livez`, `/static/…` and the page that asks for one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Final
from urllib.parse import parse_qs

from quire.aio.timing import time_limit
from quire.console.access import HEADERS, TokenGuard
from quire.console.calls import CALLS, ConsoleCall, ConsoleSource, Query
from quire.console.openapi import openapi
from quire.console.records import follow, record_row, start_of
from quire.console.rendering import STATIC, PageRenderer
from quire.console.views.troubles import CRITICAL, UNKNOWN, WARNING
from quire.errors import (
    InvalidRequestError,
    NotFoundError,
    NotPermittedError,
    QuireError,
    UnauthorizedError,
)
from quire.extras import needed_for
from quire.log.records.position import Start
from quire.rights.guard import Guard
from quire.rights.roles import Action
from quire.view.shapes import shape

with needed_for("quire console", "console"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import (
        HTMLResponse,
        JSONResponse,
        RedirectResponse,
        Response,
        StreamingResponse,
    )
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from quire.http_server import permit

LOGIN_BYTES_MAX: Final = 4_096

LOGIN_SECONDS: Final = 10.0
"""A token comes within so long: its sender may be a stranger."""

STREAMS_MAX: Final = 64
"""Live tails at the same time."""

COOKIE_SECONDS: Final = 30 * 86_400

REFRESHED: Final = frozenset(
    {"overview", "bookies", "healing", "growth", "connections", "gateways"}
)
"""Pages that are looked at anew as a whole; others name their part."""

REFRESH_SECONDS: Final = 5

NAVIGATION: Final = (
    *("overview", "bookies", "logs", "healing", "ledgers", "growth", "connections", "gateways"),
)

OPEN: Final = ("/livez", "/login", "/static/")
"""Paths that need no token."""

Handler = Callable[[Request], Awaitable[Response]]

_log = logging.getLogger(__name__)


class Console:
    """One console's application, without its server."""

    def __init__(
        self,
        source: ConsoleSource,
        guard: TokenGuard,
        rights: Guard | None = None,
        *,
        secure: bool = False,
    ) -> None:
        """`rights` knows the rights of callers; None: each token has all that the console has.
        `secure` says that browsers come over TLS: their cookie is for TLS alone.
        """
        self._source = source
        self._rights = rights
        self._guard = guard
        self._secure = secure
        self._streams = 0
        self._ending = asyncio.Event()
        shown = {call.name: call for call in CALLS}
        self._pages = PageRenderer(
            [{"path": shown[name].page, "title": shown[name].title} for name in NAVIGATION]
        )
        routes = [
            *(Route(call.path, partial(self._answer, call), methods=["GET"]) for call in CALLS),
            *(Route(call.page, partial(self._show, call), methods=["GET"]) for call in CALLS),
            Route("/api/v1/openapi.json", self._describe, methods=["GET"]),
            Route("/tail", self._tail, methods=["GET"]),
            Route("/open", self._open, methods=["GET"]),
            Route("/login", self._login, methods=["POST"]),
            Route("/livez", self._alive, methods=["GET"]),
            Route("/readyz", self._ready, methods=["GET"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        inner = Starlette(routes=routes, exception_handlers={HTTPException: self._no_such_page})
        self.app: ASGIApp = _Guarded(inner, self._refusal)

    async def end(self) -> None:
        """Let live tails end, so that the server can."""
        self._ending.set()

    def _refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that is not allowed; None for others."""
        if not self._guard.knows_host(request.headers.get("host", "")):
            text = "this console is reached as 127.0.0.1, [::1] or localhost"
            return _failed(421, "wrong_host", text)
        path = request.url.path
        if path == "/open" or path.startswith(OPEN):
            return None
        cookie = request.cookies.get(self._guard.cookie_name, "")
        identity = self._guard.caller(request.headers.get("authorization", ""), cookie)
        if identity is not None:
            request.state.identity = identity
            permit(request.scope)
            return None
        if path.startswith(("/api/", "/tail", "/readyz")):
            text = "send Authorization: Bearer TOKEN"
            return _failed(401, "unauthorized", text, {"WWW-Authenticate": "Bearer"})
        return self._ask_for_token("This page needs a token", UNKNOWN)

    def _ask_for_token(self, title: str, severity: str) -> Response:
        said = "A console reads with the rights of its process. Its token opens it."
        return HTMLResponse(self._pages.message(title, said, severity, login=True), 401)

    async def _answer(self, call: ConsoleCall, request: Request) -> Response:
        query = Query(request.query_params)
        try:
            self._check(request, call.action, query.needed(call.log) if call.log else None)
            view = await call.make(self._source, query)
        except QuireError as error:
            status, code = _kind_of(error)
            return _failed(status, code, str(error))
        return JSONResponse(shape(view))

    async def _show(self, call: ConsoleCall, request: Request) -> Response:
        given = dict(request.query_params)
        query = Query(given)
        try:
            self._check(request, call.action, query.needed(call.log) if call.log else None)
            view = await call.make(self._source, query)
        except QuireError as error:
            status, _ = _kind_of(error)
            severity = CRITICAL if status >= 500 else WARNING
            return HTMLResponse(self._pages.message(call.title, str(error), severity), status)
        page = self._pages.page(
            *(call.name, call.title, call.page, given),
            view=view,
            snapshot=self._source.snapshot,
            shows_records=self._source.shows_records,
            refreshes=REFRESH_SECONDS if call.name in REFRESHED else None,
        )
        return HTMLResponse(page)

    def _check(self, request: Request, action: Action, log: str | None) -> None:
        """Return when the caller has the right. Raises `NotPermittedError`."""
        if self._rights is not None:
            self._rights.check_log(request.state.identity, action, log)

    async def _describe(self, request: Request) -> Response:
        return JSONResponse(openapi())

    async def _tail(self, request: Request) -> Response:
        query = Query(request.query_params)
        if not self._source.shows_records:
            return _failed(403, "forbidden", "this console shows no records")
        try:
            log, text = query.needed("log"), request.headers.get("last-event-id")
            start = start_of(text or query.text("from", "latest"))
            self._check(request, Action.READ, log)
        except QuireError as error:
            return _failed(*_kind_of(error), str(error))
        if self._streams >= STREAMS_MAX:
            return _failed(429, "busy", f"{STREAMS_MAX} tails are open: close one")
        headers = {"X-Accel-Buffering": "no"}
        again = _nothing
        if self._rights is not None:
            again = self._rights.recheck(request.state.identity, Action.READ, log)
        self._streams += 1  # here: many requests may come before the first tail begins
        events = self._events(log, start, again)
        return _LiveTail(events, self._end_tail, headers=headers)

    def _end_tail(self) -> None:
        self._streams -= 1

    async def _events(
        self, log: str, start: Start, check: Callable[[], None]
    ) -> AsyncGenerator[str, None]:
        try:
            yield ": the stream begins\n\n"
            async for record in follow(self._source.client, log, start, self._ending):
                check()
                if record is None:
                    yield ": quiet\n\n"
                    continue
                row = self._pages.record(record_row(record))
                yield f"event: record\nid: {record.position.after}\ndata: {row}\n\n"
            yield "event: end\ndata: the log is sealed, or the console ends\n\n"
        except QuireError as error:
            text = str(error).replace("\r", " ").replace("\n", " ")
            yield f"event: end\ndata: {text}\n\n"

    async def _open(self, request: Request) -> Response:
        """Take the token of an address that the command printed out of the address."""
        return self._welcome(request.query_params.get("token", ""))

    async def _login(self, request: Request) -> Response:
        body = b""
        try:
            async with time_limit(LOGIN_SECONDS):
                async for part in request.stream():
                    body += part
                    if len(body) > LOGIN_BYTES_MAX:
                        return _failed(413, "too_large", "a token is shorter")
        except TimeoutError:
            text = f"the token has not come within {LOGIN_SECONDS:g} s"
            return _failed(408, "stalled", text, {"Connection": "close"})
        except ClientDisconnect:
            return Response(status_code=400)  # read by no client
        given = parse_qs(body.decode(errors="replace")).get("token", [""])
        return self._welcome(given[0].strip())

    def _welcome(self, token: str) -> Response:
        cookie = self._guard.cookie(token)
        if cookie is None:
            return self._ask_for_token("This token is wrong", WARNING)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            *(self._guard.cookie_name, cookie),
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="strict",
            secure=self._secure,
        )
        return answer

    async def _alive(self, request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def _ready(self, request: Request) -> Response:
        snapshot = self._source.snapshot
        if snapshot.facts is None or snapshot.trouble:
            reason = snapshot.trouble or "the first look is under way"
            return JSONResponse({"status": "not ready", "reasons": [reason]}, 503)
        return JSONResponse({"status": "ready"})

    async def _no_such_page(self, request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        text = f"there is no {request.method} {request.url.path}"
        if request.url.path.startswith("/api/"):
            return _failed(status, "no_such_call", f"{text}: see /api/v1/openapi.json")
        return HTMLResponse(self._pages.message("No such page", text, WARNING), status)


class _LiveTail(StreamingResponse):
    """A live tail, counted until its end."""

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncGenerator[str, None], ended: Callable[[], None], headers: dict[str, str]
    ) -> None:
        super().__init__(events, headers=headers)
        self._events = events
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(self._events):
                await super().__call__(scope, receive, send)
        finally:
            self._ended()


class _Guarded:
    """Refuses requests before any route, and gives every answer the headers of safety."""

    def __init__(self, inner: ASGIApp, refuse: Callable[[Request], Response | None]) -> None:
        self._inner = inner
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        raw = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *raw]}
            await send(message)

        refused = self._refuse(Request(scope))
        await (refused or self._inner)(scope, receive, with_headers)


def _nothing() -> None:
    """Check nothing: each token has all rights of the console."""


def _kind_of(error: QuireError) -> tuple[int, str]:
    match error:
        case NotPermittedError():
            return 403, "not_permitted"
        case UnauthorizedError():
            return 403, "forbidden"
        case InvalidRequestError():
            return 400, "invalid_request"
        case NotFoundError():
            return 404, "not_found"
    return 503, "unavailable"


def _failed(status: int, code: str, text: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": code, "message": text}, status, headers)

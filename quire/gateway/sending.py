"""Requests over HTTP hold their place, and their answers, until the client has taken them.

A server takes the whole of an answer, or of a part of a stream, at once. Without this a client that
reads nothing would cost a gateway the memory of each of its requests, and none of its places.

No answer runs in a browser: any client that may append chooses the media type of a stream, and a
page of the gateway's own origin could use the gateway as its reader does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, cast

from quire.extras import needed_for
from quire.gateway.answers import BusyError, kind_of
from quire.gateway.limits import COUNTED_BYTES, Admission, HeldPlace

with needed_for("quire gateway", "gateway"):
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.types import Message, Receive, Scope, Send

_BODY = "http.response.body"

INERT: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
)
"""A browser takes an answer with these headers for the type that it has, and runs nothing of it."""


class HoldingEndpoint:
    """The application of one call."""

    def __init__(
        self, admission: Admission, answer: Callable[[Request, HeldPlace], Awaitable[Response]]
    ) -> None:
        """`answer` takes the place once it knows the caller."""
        self._admission = admission
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive, send)
        with HeldPlace(self._admission) as held:
            response = await self._answer(request, held)
            response.raw_headers.extend(INERT)
            if isinstance(response, StreamingResponse):
                source = cast(AsyncGenerator[bytes, None], response.body_iterator)
                async with aclosing(counted(self._admission, source)) as parts:
                    response.body_iterator = parts
                    await response(scope, receive, send)
                return
            is_large = len(response.body) > COUNTED_BYTES
            await response(scope, receive, _until_taken(send) if is_large else send)


def hold(held: HeldPlace, request: Request, response: Response) -> None:
    """Hold an answer with its place.

    Raises `BusyError` without space for the answer, unless the request may have changed something.
    """
    if isinstance(response, StreamingResponse):
        held.become_stream()
    else:
        held.keep(len(response.body), is_certain=request.method not in ("GET", "HEAD"))


async def counted(
    admission: Admission, parts: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a stream of events. A large one counts until the client has taken it.

    Without space for a part the stream ends with an event `error`, and its client goes on later
    from the event before. To wait with the part would hold as much memory as to send it.

    Args:
        admission: the bytes under way.
        parts: closed at the end.
    """
    async with aclosing(parts):
        async for part in parts:
            size = len(part)
            if size <= COUNTED_BYTES:
                yield part
                continue
            if admission.free <= 0:
                busy = BusyError("answers wait for their clients")
                yield f"event: error\ndata: {kind_of(busy).code}: {busy}\n\n".encode()
                return
            admission.hold(size)
            try:
                yield part
                del part  # the next one may be long in coming
                yield b""  # a server takes it once the client has nearly all before it
            finally:
                admission.give_back(size)


def _until_taken(send: Send) -> Send:
    """Return a `send` that ends when the client has nearly all of the last part.

    A server waits for the client before it takes the part after it.
    """

    async def sending(message: Message) -> None:
        if message["type"] == _BODY and not message.get("more_body", False):
            await send({**message, "more_body": True})
            message = {"type": _BODY, "body": b"", "more_body": False}
        await send(message)

    return sending

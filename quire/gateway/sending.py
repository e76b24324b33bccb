"""Requests over HTTP hold their place, and their answers, until the client has taken them.

A server takes the whole of an answer at once. Without this a client that reads nothing would cost
a gateway the memory of each of its requests, and none of its places.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from quire.extras import needed_for
from quire.gateway.limits import COUNTED_BYTES, Admission, HeldPlace

with needed_for("quire gateway", "gateway"):
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.types import Message, Receive, Scope, Send

_BODY = "http.response.body"


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
            is_large = len(_body(response)) > COUNTED_BYTES
            await response(scope, receive, _until_taken(send) if is_large else send)


def hold(held: HeldPlace, request: Request, response: Response) -> None:
    """Hold an answer with its place.

    Raises `BusyError` without space for the answer, unless the request may have changed something.
    """
    if isinstance(response, StreamingResponse):
        held.become_stream()
    else:
        held.keep(len(_body(response)), is_certain=request.method not in ("GET", "HEAD"))


def _body(response: Response) -> bytes | memoryview:
    return b"" if isinstance(response, StreamingResponse) else response.body


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

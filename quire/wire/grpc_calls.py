"""The first message of a call to a gRPC server: it has a deadline, and calls of one peer a limit.

gRPC waits for the message of a call for as long as the client likes, and calls that wait take the
places of others: a server carries so many at once. So each method is served as a stream of
messages, which looks the same to a client, and the server reads the message by itself.

Until then gRPC holds little of the message (`WINDOW_BYTES_MAX`). From then on it gathers all of it
and tells nothing, so what all messages that come in may hold is taken before the reading.

Not here: the messages of the stream of runs (add_stream.py), and the work of a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final, Protocol

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from quire.aio.timing import time_limit

_EOF: Final[object] = grpc.aio.EOF  # type: ignore[attr-defined]


class Door(Protocol):
    """Port: the limits that a call meets."""

    @property
    def first_message_seconds(self) -> float:
        """A caller has so long for its message."""
        ...

    def call_of(self, context: Any, /) -> AbstractContextManager[str | None]:
        """Have a place for a call in the block; yields the reason of a refusal."""
        ...

    def arriving(self, context: Any, size: int, /) -> AbstractAsyncContextManager[None]:
        """Have space for a message of so many bytes in the block; waits for its turn."""
        ...


Behaviour = Callable[[Any, Any], Awaitable[Any]]
"""A method of a service: it takes a request, or nothing for a stream, and the context."""


def at_door(
    behaviour: Behaviour,
    door: Door,
    decode: Callable[[bytes], Any] | None,
    message_bytes_max: int,
) -> Behaviour:
    """Return a handler of a stream of requests that serves a call with a place and a message.

    Args:
        behaviour: the method.
        door: gives places.
        decode: takes the first message apart; None for a method that reads its messages itself.
        message_bytes_max: the largest message that the server takes.
    """

    async def serve(_: Any, context: Any) -> Any:
        with door.call_of(context) as refusal:
            if refusal is not None:
                return await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, refusal)
            if decode is None:
                return await behaviour(None, context)
            first = await _first(context, door, decode, message_bytes_max)
            return await behaviour(first, context)

    return serve


async def _first(context: Any, door: Door, decode: Callable[[bytes], Any], size: int) -> Any:
    seconds = door.first_message_seconds
    try:
        async with time_limit(seconds), door.arriving(context, size):
            message = await context.read()
    except TimeoutError:
        reason = f"no message of the call has come for {seconds:g} s"
        return await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, reason)
    try:
        return decode(b"" if message is _EOF else message)
    except DecodeError:
        reason = f"a message of {len(message)} bytes cannot be decoded"
        return await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)

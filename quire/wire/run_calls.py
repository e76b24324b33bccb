"""The client's end of a stream of runs: over gRPC, or as plain frames where a bookie takes these.

Both carry the same messages. Any end of a stream is `StreamOverError` with the reason in words, and
bytes that are not a message are `NoMessageError`; users of a stream need not know its kind.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from quire.wire import bookie_pb2 as pb
from quire.wire.adds import METHOD, UNDECODABLE, decode_reply
from quire.wire.framed import ConnectionOverError, FramedConnection, connect
from quire.wire.reads import NoMessageError
from quire.wire.transport import EOF, WRITE_ERRORS, RpcError, explain


class StreamOverError(Exception):
    """A stream that ended, or never began, with the reason in a few words."""


class RunCall(Protocol):
    """One stream of runs, from its opening to its end."""

    async def write(self, message: bytes, /) -> None:
        """Send a serialized `pb.AddRequest`. Raises `StreamOverError`."""
        ...

    async def read(self) -> pb.AddReply | None:
        """Return the next reply, None at the end. Raises `StreamOverError`, `NoMessageError`."""
        ...

    def cancel(self) -> None:
        """End the stream at once."""
        ...


class GrpcRuns:
    """A stream of runs as a call of a channel."""

    def __init__(self, channel: Any) -> None:
        # A stream of bytes: adds.py has serialized them.
        self._call = channel.stream_stream(METHOD, response_deserializer=pb.AddReply.FromString)()

    async def write(self, message: bytes, /) -> None:
        try:
            await self._call.write(message)
        except WRITE_ERRORS as error:
            raise StreamOverError(str(error)) from error

    async def read(self) -> pb.AddReply | None:
        try:
            reply: Any = await self._call.read()
        except RpcError as error:
            raise StreamOverError(explain(error)) from error
        if reply is EOF:
            return None
        if reply is None:  # gRPC returns None for bytes that it cannot decode
            raise NoMessageError(UNDECODABLE)
        message: pb.AddReply = reply
        return message

    def cancel(self) -> None:
        self._call.cancel()


class FramedRuns:
    """A stream of runs as a connection to host:port. Opened at once; needs a running loop."""

    def __init__(self, address: str) -> None:
        self._connection: FramedConnection | None = None
        self._connecting = asyncio.create_task(connect(address))
        self._connecting.add_done_callback(self._connected)
        self._is_cancelled = False

    def _connected(self, connecting: asyncio.Task[FramedConnection]) -> None:
        if connecting.cancelled() or connecting.exception() is not None:
            return
        self._connection = connecting.result()
        if self._is_cancelled:
            self._connection.abort()

    async def _open(self) -> FramedConnection:
        if self._connection is not None:
            return self._connection
        return await asyncio.shield(self._connecting)

    async def write(self, message: bytes, /) -> None:
        try:
            await (await self._open()).write(message)
        except ConnectionOverError as error:
            raise StreamOverError(str(error)) from error

    async def read(self) -> pb.AddReply | None:
        try:
            message = await (await self._open()).read()
        except ConnectionOverError as error:
            raise StreamOverError(str(error)) from error
        return None if message is None else decode_reply(message)

    def cancel(self) -> None:
        self._is_cancelled = True
        self._connecting.cancel()
        if self._connection is not None:
            self._connection.abort()

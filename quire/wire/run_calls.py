"""The client's end of a stream of runs: over gRPC, or as plain frames where a bookie takes these.

Both carry the same messages. Any end of a stream is `StreamOverError` with the reason in words, and
bytes that are not a message are `NoMessageError`; users of a stream need not know its kind.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from quire.wire import bookie_pb2 as pb
from quire.wire.adds import METHOD, UNDECODABLE, decode_reply
from quire.wire.framed import HELLO_GREETING, ConnectionOverError, FramedConnection, connect
from quire.wire.hello import Hello, Refusal, decode_hello, encode_hello
from quire.wire.reads import NoMessageError
from quire.wire.transport import EOF, WRITE_ERRORS, RpcError, explain


class StreamOverError(Exception):
    """A stream that ended, or never began, with the reason in a few words."""


class StreamRefusedError(Exception):
    """The bookie's hello refuses this client."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class RunCall(Protocol):
    """One stream of runs, from its opening to its end."""

    async def write(self, message: bytes, /) -> None:
        """Send a serialized `pb.AddRequest`. Raises `StreamOverError`."""
        ...

    async def read(self) -> pb.AddReply | None:
        """Return the next reply, None at the end.

        Raises `StreamOverError`, `StreamRefusedError`, `NoMessageError`.
        """
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
    """A stream of runs as a connection to host:port. Opened at once; needs a running loop.

    With a hello, the connection begins with it, and the bookie's first message is its own. Runs
    follow without waiting for that: a bookie that refuses the client reads none of them.
    """

    def __init__(self, address: str, hello: Hello | None = None) -> None:
        self._connection: FramedConnection | None = None
        self._hello = hello
        self.theirs: Hello | None = None
        """The bookie's hello, once it is here."""
        self._connecting = asyncio.create_task(self._connect(address))
        self._connecting.add_done_callback(self._connected)
        self._is_cancelled = False

    async def _connect(self, address: str) -> FramedConnection:
        if self._hello is None:
            return await connect(address)
        connection = await connect(address, HELLO_GREETING)
        await connection.write(encode_hello(self._hello))
        return connection

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
            connection = await self._open()
            if self._hello is not None and self.theirs is None:
                await self._meet(connection)
            message = await connection.read()
        except ConnectionOverError as error:
            raise StreamOverError(str(error)) from error
        return None if message is None else decode_reply(message)

    async def _meet(self, connection: FramedConnection) -> None:
        """Read the bookie's hello. Raises `StreamRefusedError`, `NoMessageError`."""
        message = await connection.read()
        if message is None:
            raise StreamOverError("it closed the connection instead of a hello")
        self.theirs = decode_hello(message)
        if self.theirs.refusal is not None:
            raise StreamRefusedError(self.theirs.refusal)

    def cancel(self) -> None:
        self._is_cancelled = True
        self._connecting.cancel()
        if self._connection is not None:
            self._connection.abort()

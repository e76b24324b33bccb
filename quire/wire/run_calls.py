"""The client's end of a stream: runs over gRPC, or as plain frames where a bookie takes these, and
subscriptions and reads as plain frames.

Runs are the same messages on both ways. Any end of a stream is `StreamOverError` with the reason in
words, and bytes that are not a message are `NoMessageError`; users of a stream need not know its
kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

from quire.errors import ClientRefusedError, UntrustedBookieError
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import METHOD, UNDECODABLE, decode_reply
from quire.wire.framed import HELLO_GREETING, ConnectionOverError, FramedConnection, connect
from quire.wire.hello import READS, SUBSCRIPTIONS, Hello, Refusal, decode_hello, encode_hello
from quire.wire.news import decode_news_reply
from quire.wire.reads import NoMessageError
from quire.wire.tls import Blame, TlsError, TlsSession
from quire.wire.transport import EOF, WRITE_ERRORS, RpcError, explain, metadata_of


class StreamOverError(Exception):
    """A stream that ended, or never began, with the reason in a few words."""


class StreamRefusedError(StreamOverError):
    """The bookie's hello refuses this client."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class StreamUntrustedError(StreamOverError):
    """The server does not prove that it is the bookie."""


class RunCall(Protocol):
    """One stream of runs, from its opening to its end."""

    async def write(self, *parts: bytes) -> None:
        """Send a serialized `pb.AddRequest`, in parts. Raises `StreamOverError`."""
        ...

    async def read(self) -> pb.AddReply | None:
        """Return the next reply, None at the end.

        Raises `StreamOverError`, `StreamRefusedError`, `NoMessageError`.
        """
        ...

    def cancel(self) -> None:
        """End the stream at once."""
        ...

    @property
    def end(self) -> float | None:
        """When the bookie's certificate ends, in seconds since 1970; None if nothing depends on
        it, or while it is not known.
        """
        ...


class OfferedCall(Protocol):
    """One connection for a use that the bookie has to offer, from its opening to its end."""

    async def is_offered(self) -> bool:
        """Return whether the bookie serves this use here. Raises as `NewsCall.read`."""
        ...

    async def write(self, *parts: bytes) -> None:
        """Send a message, in parts. Raises `StreamOverError`."""
        ...

    def cancel(self) -> None:
        """End the connection at once."""
        ...

    @property
    def end(self) -> float | None:
        """See `RunCall.end`."""
        ...


class NewsCall(OfferedCall, Protocol):
    """One connection for subscriptions. It is sent serialized `pb.NewsRequest`s."""

    stream: str
    """The id of the connection: both sides name its subscriptions by it in logs."""

    async def read(self) -> pb.NewsReply | None:
        """Return the next message, None at the end.

        Raises `StreamOverError`, `StreamRefusedError`, `NoMessageError`.
        """
        ...


class ReadCall(OfferedCall, Protocol):
    """One connection for reads. Its messages are those of framed_reads.py."""

    async def read(self) -> bytes | None:
        """Return the next message, None at the end.

        Raises `StreamOverError`, `StreamRefusedError`, `NoMessageError`.
        """
        ...


class GrpcRuns:
    """A stream of runs as a call of a channel.

    `explained` gives the meaning of a failed call; without it each is an unavailable bookie.
    `stream` is the id that both sides name its runs by.
    """

    end: None = None  # the channel renews its connections itself

    def __init__(
        self,
        channel: Any,
        explained: Callable[[RpcError], Awaitable[Exception]] | None = None,
        stream: str = "",
    ) -> None:
        self._explained = explained
        # A stream of bytes: adds.py has serialized them.
        call = channel.stream_stream(METHOD, response_deserializer=pb.AddReply.FromString)
        self._call = call(metadata=metadata_of(stream))

    async def write(self, *parts: bytes) -> None:
        try:
            await self._call.write(b"".join(parts))
        except WRITE_ERRORS as error:
            raise StreamOverError(str(error)) from error

    async def read(self) -> pb.AddReply | None:
        try:
            reply: Any = await self._call.read()
        except RpcError as error:
            raise await self._over(error) from error
        if reply is EOF:
            return None
        if reply is None:  # gRPC returns None for bytes that it cannot decode
            raise NoMessageError(UNDECODABLE)
        message: pb.AddReply = reply
        return message

    async def _over(self, error: RpcError) -> StreamOverError:
        found = None if self._explained is None else await self._explained(error)
        match found:
            case ClientRefusedError(reason=reason):
                return StreamRefusedError(Refusal(reason))
            case UntrustedBookieError(reason=reason):
                return StreamUntrustedError(reason)
        return StreamOverError(explain(error))

    def cancel(self) -> None:
        self._call.cancel()


class FramedCall:
    """A stream of messages as a connection to host:port. Opened at once; needs a running loop.

    With a hello, the connection begins with it, and the bookie's first message is its own.
    """

    def __init__(
        self, address: str, hello: Hello | None = None, session: TlsSession | None = None
    ) -> None:
        self._connection: FramedConnection | None = None
        self._hello = hello
        self._session = session
        self.theirs: Hello | None = None
        """The bookie's hello, once it is here."""
        self._connecting = asyncio.create_task(self._connect(address))
        self._connecting.add_done_callback(self._connected)
        self._is_cancelled = False

    async def _connect(self, address: str) -> FramedConnection:
        if self._hello is None:
            return await connect(address, session=self._session)
        connection = await connect(address, HELLO_GREETING, self._session)
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

    async def write(self, *parts: bytes) -> None:
        try:
            await (await self._open()).write(*parts)
        except ConnectionOverError as error:
            raise _over(error) from error

    async def _message(self) -> bytes | None:
        """Return the next message, None at the end. Raises as `RunCall.read`."""
        try:
            connection = await self._open()
            if self._hello is not None and self.theirs is None:
                await self._meet(connection)
            return await connection.read()
        except ConnectionOverError as error:
            raise _over(error) from error

    async def _meet(self, connection: FramedConnection) -> None:
        """Read the bookie's hello. Raises `StreamRefusedError`, `NoMessageError`."""
        message = await connection.read()
        if message is None:
            raise StreamOverError("it closed the connection instead of a hello")
        self.theirs = decode_hello(message)
        if self.theirs.refusal is not None:
            raise StreamRefusedError(self.theirs.refusal)

    @property
    def end(self) -> float | None:
        return None if self._connection is None else self._connection.peer.end

    def cancel(self) -> None:
        self._is_cancelled = True
        self._connecting.cancel()
        if self._connection is not None:
            self._connection.abort()


class FramedRuns(FramedCall):
    """A stream of runs. They follow the client's hello without waiting for the bookie's: a bookie
    that refuses the client reads none of them.
    """

    async def read(self) -> pb.AddReply | None:
        message = await self._message()
        return None if message is None else decode_reply(message)


class OfferedFrames(FramedCall):
    """A connection for a use that the bookie has to offer. Nothing is sent before its hello has
    done so: a bookie that does not know the use would take its messages for runs.
    """

    use: str
    """The feature of hellos."""

    def __init__(self, address: str, hello: Hello, session: TlsSession | None = None) -> None:
        super().__init__(address, replace(hello, features=frozenset({self.use})), session)
        self.stream = hello.stream

    async def is_offered(self) -> bool:
        try:
            connection = await self._open()
            if self.theirs is None:
                await self._meet(connection)
        except ConnectionOverError as error:
            raise _over(error) from error
        return self.theirs is not None and self.use in self.theirs.features


class FramedNews(OfferedFrames):
    """A connection for subscriptions."""

    use = SUBSCRIPTIONS

    async def read(self) -> pb.NewsReply | None:
        message = await self._message()
        return None if message is None else decode_news_reply(message)


class FramedReads(OfferedFrames):
    """A connection for reads."""

    use = READS

    async def read(self) -> bytes | None:
        return await self._message()


def _over(error: ConnectionOverError) -> StreamOverError:
    """Return the end of a stream after the end of its connection."""
    cause = error.__cause__
    if not isinstance(cause, TlsError):
        return StreamOverError(str(error))
    if cause.blame is Blame.OURS:
        return StreamRefusedError(Refusal(str(cause)))
    return StreamUntrustedError(str(error))

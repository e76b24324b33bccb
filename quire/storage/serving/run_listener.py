"""Where a bookie takes runs as plain frames, beside its gRPC port.

Every connection is one stream of runs. It carries the messages and answers of the gRPC
method `Add` (add_stream.py), without gRPC's work for each message. A client that offers
`subscriptions` or `reads` in its hello has a connection for these instead (subscriptions.py,
read_stream.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from quire.aio.timing import time_limit
from quire.storage.serving.add_stream import AddStream, decode_runs
from quire.storage.serving.connection_port import ConnectionPort, listening
from quire.storage.serving.limits import Reception, named_peer
from quire.storage.serving.read_stream import ReadStream, decode_reads
from quire.storage.serving.stream_account import Origin
from quire.storage.serving.subscriptions import NewsStream, decode_subscriptions
from quire.wire import bookie_pb2 as pb
from quire.wire.framed import (
    HELLO_GREETING,
    ConnectionOverError,
    FramedConnection,
    pack_message,
)
from quire.wire.hello import (
    FEATURES,
    READS,
    SUBSCRIPTIONS,
    Hello,
    Refusal,
    decode_hello,
    encode_hello,
    judge,
)
from quire.wire.reads import NoMessageError
from quire.wire.tls import Contexts
from quire.wire.tls_layer import TlsLayer
from quire.wire.transport import EOF

REFUSED_MAX: Final = 64
"""Connections beyond the limit of streams that are told so, at the same time, if they greet with a
hello. One more is closed at once."""

HELLO_SECONDS: Final = 5.0
"""A client has so long to say hello, and to go when it is refused."""

TLS_ONLY: Final = (
    "this port takes TLS connections only: give connect(tls=…), or --tls-cert, --tls-key and "
    "--tls-ca"
)


class _Context:
    """The bookie's end of one stream over one connection."""

    def __init__(
        self,
        connection: FramedConnection,
        first_seconds: float,
        on_first: Callable[[], None],
        decode: Callable[[bytes], object],
    ) -> None:
        self._connection = connection
        self._on_first = on_first
        self._decode = decode
        self._is_first = True
        self._first_seconds = first_seconds

    async def read(self) -> object:
        if self._is_first:
            self._is_first = False
            async with time_limit(self._first_seconds):
                message = await self._connection.read()
            self._on_first()
        else:
            message = await self._connection.read()
        return EOF if message is None else self._decode(message)

    async def write(self, message: pb.AddReply | pb.NewsReply, /) -> None:
        await self._connection.write(message.SerializeToString())

    async def send(self, *parts: bytes) -> None:
        await self._connection.write(*parts)

    def end(self) -> None:
        self._connection.abort()


_RUNS: Final = AddStream, decode_runs

_USES: Final = {
    SUBSCRIPTIONS: (NewsStream, decode_subscriptions),
    READS: (ReadStream, decode_reads),
}
"""What serves a connection, and takes its messages apart, by the use that the client offers."""


def _use_of(client: Hello) -> Any:
    return next((_USES[each] for each in _USES if each in client.features), _RUNS)


class _RunPort(ConnectionPort):
    """The connections of one listening socket."""

    remedy = "this port is for clients of quire"

    def __init__(self, reception: Reception, connections: int, tls: Contexts | None) -> None:
        super().__init__(reception, connections)
        self._tls = tls
        self._refused = 0
        """Clients that hear of the limit just now."""

    def connection(self) -> asyncio.Protocol:
        """Return the protocol of a connection that comes in. A handshake counts as silence."""
        connection = self.received()
        if self._tls is None:
            return connection
        return connection.inside(
            TlsLayer(
                *(self._tls.accept(), connection),
                is_server=True,
                refuse_plain=self._refuse_plain,
                on_refused=partial(self._refusals.count, "tls"),
            )
        )

    def _refuse_plain(self, said: bytes) -> bytes:
        """Return the answer to a client without TLS, if it greets with a hello."""
        if not said.startswith(HELLO_GREETING):
            return b""
        mine = Hello(self._reception.bookie_id, refusal=Refusal(TLS_ONLY))
        return pack_message(encode_hello(mine))

    async def _serve(self, connection: FramedConnection) -> None:
        try:
            owner = connection.owner
            with suppress(ConnectionOverError, TimeoutError), ExitStack() as place:
                full, stream = place.enter_context(self._reception.stream_of(owner)), ""
                if full is not None:
                    if self._refused >= REFUSED_MAX:
                        return
                    place.enter_context(self._refusing())
                use: Any = _RUNS
                if connection.greeting == HELLO_GREETING:
                    client = await self._meet(connection, full)
                    if client is None:
                        return
                    stream, use = client.stream, _use_of(client)
                elif connection.peer.complaint is not None or full is not None:
                    return  # it greets as before there was TLS, and has no place for a reason
                if use is _RUNS:
                    connection.take_all()
                identity = connection.peer.identity
                origin = Origin(named_peer(identity, connection.address), stream, owner)
                seconds = self._reception.limits.first_message_seconds
                spoke = partial(self._seats.spoke, connection)
                serve, decode = use
                context = _Context(connection, seconds, spoke, decode)
                await serve(self._reception, context, identity, origin).serve()
        except Exception as error:
            self._reception.failure(error)
        finally:
            connection.close()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        self._refused += 1
        try:
            yield
        finally:
            self._refused -= 1

    async def _meet(self, connection: FramedConnection, full: str | None) -> Hello | None:
        """Exchange hellos with a client; return its own, None if it was refused, and is gone. If
        its stream has to be refused, `full` says why.

        A refused client is read to its end, for some seconds: to close a connection with bytes that
        were not read would destroy the refusal on its way.
        """
        async with time_limit(HELLO_SECONDS):
            message = await connection.read()
        if message is None:
            return None
        mine = Hello(self._reception.bookie_id, features=FEATURES)
        client: Hello | None = None
        try:
            client = decode_hello(message)
            refusal = judge(client, mine)
        except NoMessageError as error:
            refusal = Refusal(str(error))
        if connection.peer.complaint is not None:
            refusal = Refusal(connection.peer.complaint)
        if refusal is None and full is not None:
            refusal = Refusal(full, is_passing=True)
        await connection.write(encode_hello(replace(mine, refusal=refusal)))
        if refusal is None:
            return client
        self._refusals.count("hello", f"a client: {refusal.reason}")
        async with time_limit(HELLO_SECONDS):
            while await connection.read() is not None:
                await self._reception.messages.wait(connection.owner)
        return None


@asynccontextmanager
async def serve_runs(
    reception: Reception, listen: str, connections: int, tls: Contexts | None = None
) -> AsyncIterator[str]:
    """Take runs on host:port while the block runs, over at most so many connections; yields the
    address with the real port. With certificates, only connections with TLS are taken.

    At its end every stream is broken off. Raises `ConfigurationError` when the address cannot be
    used.
    """
    async with listening(_RunPort(reception, connections, tls), listen) as address:
        yield address

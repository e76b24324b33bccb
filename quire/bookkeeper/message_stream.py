"""One TCP connection to a bookie of Apache's, as a stream of messages with their sizes in front.

A connection is opened once. Messages that are sent before it stands wait, and all of one turn of
the loop go in one write. A connection that is over says why, and sends nothing any more.

A message that exceeds `MESSAGE_BYTES_MAX`, or cannot be read, ends the connection.

Not here: the meaning of messages (`connection.py` speaks the third protocol, `batch_connection.py`
the second).
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.bookie import BookieAddress
from quire.bookkeeper import wire3
from quire.bookkeeper.protobuf import MalformedError
from quire.bookkeeper.status import Status
from quire.bookkeeper.tls import ClientTls
from quire.bookkeeper.wire3 import SIZE
from quire.entry import BookieId
from quire.errors import BookieUnavailableError, ClientRefusedError, QuireError

CONNECT_SECONDS: Final = 5.0

PLAIN_AFTER: Final = "plain text follows its answer to START_TLS"
"""Bytes that any machine on the way may have added. They would be taken for the first of those that
come over TLS.
"""

Piece: TypeAlias = bytes | memoryview

OpenTransport: TypeAlias = Callable[[asyncio.Protocol], Coroutine[Any, Any, asyncio.Transport]]
"""Connects a protocol to the bookie. Raises `OSError`."""


def to_address(address: str) -> OpenTransport:
    """Return what connects to host:port over TCP."""
    host, _, port = address.rpartition(":")

    async def connect(protocol: asyncio.Protocol) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        made, _ = await loop.create_connection(lambda: protocol, host.strip("[]"), int(port))
        return made

    return connect


class Endpoint(NamedTuple):
    """A bookie, and how its connections are made."""

    bookie: BookieId
    connect: OpenTransport
    timeout: float
    """Seconds for an answer."""
    tls: ClientTls | None = None
    server_name: str = ""
    """The host that the bookie's certificate must name."""

    @classmethod
    def of(
        cls,
        address: BookieAddress,
        timeout: float,
        tls: ClientTls | None = None,
        connect: OpenTransport | None = None,
    ) -> Endpoint:
        """Return the endpoint at an address, by TCP unless `connect` says otherwise."""
        host = address.address.rpartition(":")[0].strip("[]")
        return cls(address.bookie, connect or to_address(address.address), timeout, tls, host)


class MessageStream(asyncio.Protocol):
    """See the module. Opened at once; needs a running loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._bookie = endpoint.bookie
        self._timeout = endpoint.timeout
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.is_open = False
        """Whether it ever stood."""
        self.over: str | None = None
        """Why the connection is over, None while it is not."""
        self._outbox: list[Piece] = []
        self._flushing: asyncio.Handle | None = None
        self._buffer = bytearray()
        """The beginning of a message that is not whole."""
        self._wanted = SIZE.size
        """Bytes that the buffer needs before it is looked at again."""
        self._heard_at = self._loop.time()
        self._greeting: asyncio.Future[bytes] | None = None
        """The answer to START_TLS, until TLS is spoken: all that comes before is no answer else."""
        if endpoint.tls is not None:
            self._greeting = self._loop.create_future()
        self._tasks = Tasks()
        self._tasks.start(self._open(endpoint), f"connection to bookie {self._bookie}")

    @abstractmethod
    def _take(self, message: bytes) -> None:
        """Take a message that is whole, without its size. Raises `MalformedError`."""

    def _take_expected(self, data: bytes, at: int) -> int:
        """Take messages at an offset that were expected there, byte for byte; return where the rest
        begins. By default nothing is expected.
        """
        return at

    @abstractmethod
    def _abandon(self, error: BookieUnavailableError) -> None:
        """Fail everything under way: the connection is over."""

    def _check(self) -> None:
        if self.over is not None:
            raise self.unavailable(self.over)

    def unavailable(self, reason: str) -> BookieUnavailableError:
        """Return the error of a bookie that gave no answer."""
        return BookieUnavailableError(self._bookie, reason)

    async def close(self) -> None:
        """Break all calls under way. Harmless when called again."""
        self.end("its link was closed")
        await self._tasks.stop()

    def end(self, reason: str) -> None:
        """Fail everything under way, and let nothing else begin."""
        if self.over is not None:
            return
        self.over = reason
        if self._transport is not None:
            self._transport.abort()
        self._outbox.clear()
        self._tasks.cancel_others()
        error = self.unavailable(reason)
        if self._greeting is not None and not self._greeting.done():
            self._greeting.cancel()
        self._abandon(error)

    # Opening.

    async def _open(self, endpoint: Endpoint) -> None:
        try:
            async with time_limit(CONNECT_SECONDS):
                self._transport = await endpoint.connect(self)
                if endpoint.tls is not None and self._greeting is not None:
                    await self._start_tls(
                        *(self._transport, self._greeting),
                        *(endpoint.tls, endpoint.server_name),
                    )
        except TimeoutError:
            self.end(f"no connection within {CONNECT_SECONDS:g} s")
        except (OSError, EOFError) as error:
            self.end(str(error) or type(error).__name__)
        except MalformedError as error:
            self._end_malformed(error)
        except QuireError as error:
            self.end(str(error))
        else:
            self.is_open = True
            self._flush()

    async def _start_tls(
        self,
        plain: asyncio.Transport,
        greeting: asyncio.Future[bytes],
        tls: ClientTls,
        host: str,
    ) -> None:
        """Ask for TLS by a message of the third protocol, and speak it. A bookie that refuses is
        not spoken to in plain text.
        """
        plain.write(wire3.start_tls(0))
        answer = wire3.read_answer(await greeting)
        if answer.status != Status.OK:
            raise ClientRefusedError(
                self._bookie, "it does not speak TLS, and tls=yes forbids anything else"
            )
        if self._buffer:
            raise MalformedError(PLAIN_AFTER)
        self._greeting = None
        self._transport = await tls.over(plain, self, host)

    # Sending.

    def _send(self, pieces: Sequence[Piece]) -> None:
        self._outbox += pieces
        if self.is_open and self._flushing is None:
            self._flushing = self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = None
        if self._outbox and self._transport is not None and self.over is None:
            pieces, self._outbox = self._outbox, []
            self._transport.writelines(pieces)

    # Reports of the transport.

    def connection_lost(self, error: Exception | None) -> None:
        self.end("it closed the connection" if error is None else str(error))

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._wanted:
                return
            data = bytes(self._buffer)
        try:
            at = self._take_whole(data)
        except MalformedError as error:
            self._end_malformed(error)
            at = len(data)
        self._buffer = bytearray(data[at:])

    def _take_whole(self, data: bytes) -> int:
        """Take the messages that are whole; return where the rest begins."""
        at, end = 0, len(data)
        while at + SIZE.size <= end:
            if self._greeting is None and (after := self._take_expected(data, at)) > at:
                at = after
                continue
            (size,) = SIZE.unpack_from(data, at)
            if size > wire3.MESSAGE_BYTES_MAX:
                raise MalformedError(f"a message of {size} bytes")
            after = at + SIZE.size + size
            if after > end:
                self._wanted = after - at
                return at
            message = data[at + SIZE.size : after]
            if self._greeting is None:
                self._take(message)
            elif self._greeting.done():
                raise MalformedError(PLAIN_AFTER)
            else:
                self._greeting.set_result(message)
            at = after
        self._wanted = SIZE.size
        return at

    def _end_malformed(self, error: MalformedError) -> None:
        self.end(f"it does not speak BookKeeper's protocol: {error}")

    def _look_whether_gone(self, since: float) -> None:
        """End the connection if it brought nothing since a request: its other end is gone, or
        hangs.
        """
        if self._heard_at <= since:
            self.end(f"it sent nothing for {self._loop.time() - since:.1f} s")

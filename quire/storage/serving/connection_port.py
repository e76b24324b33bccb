"""The connections of one listening socket that takes messages after their sizes.

A connection that has said nothing yet counts as silent, and others take its place when there are
many. After its greeting a connection wants a place among its peer's (seats.py). A
subclass serves it.

Not here: the budgets of their bytes (limits.py), the messages (run_listener.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar, Final

from quire.errors import ConfigurationError
from quire.storage.serving.limits import Reception
from quire.storage.serving.seats import Seats
from quire.wire.framed import GREETINGS, Budgets, FramedConnection
from quire.wire.transport import MESSAGE_BYTES_MAX, cannot_listen, split_address

TLS_RECORD: Final = b"\x16\x03"
HTTP_METHODS: Final = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PRI", b"OPTIONS", b"CONNECT"})
"""How clients of other protocols begin that end up at the wrong port."""

SILENT_MAX: Final = 1024
"""Connections at the same time that have not greeted yet. One more ends the connection that has
been silent longest: our clients greet at once, whatever other clients do."""


class ConnectionPort:
    """See the module. `_serve` is a subclass's."""

    remedy: ClassVar[str]
    """The advice to a client of an unknown protocol."""

    def __init__(
        self,
        reception: Reception,
        connections: int,
        *,
        greetings: Sequence[bytes] = GREETINGS,
        message_max: int = MESSAGE_BYTES_MAX,
        silent_seconds: float | None = None,
    ) -> None:
        self._reception = reception
        self._greetings = greetings
        self._message_max = message_max
        self._silent_seconds = silent_seconds
        self._refusals = reception.refusals
        self._budgets = Budgets(
            reception.unfinished, reception.unread, reception.received, reception.large
        )
        places = connections * 3 // 4
        self._seats = Seats[FramedConnection](places, reception.limits.share(places))
        self._silent_max = min(SILENT_MAX, connections // 4)
        self._streams: dict[FramedConnection, asyncio.Task[None]] = {}
        self._silent: dict[FramedConnection, None] = {}
        """Connections that have not greeted yet, oldest first."""

    def connection(self) -> asyncio.Protocol:
        """Return the protocol of a connection that comes in."""
        return self.received()

    def received(self) -> FramedConnection:
        """Return a connection that is silent so far; the longest silent connection may lose its
        place to it.
        """
        connection = FramedConnection(
            on_greeted=self._greeted,
            on_lost=self._lost,
            budgets=self._budgets,
            greetings=self._greetings,
            message_max=self._message_max,
            silent_seconds=self._silent_seconds,
        )
        if len(self._silent) >= self._silent_max:
            longest = next(iter(self._silent))
            self._refusals.count("silent", f"{self._silent_max} connections say nothing")
            del self._silent[longest]
            longest.abort()
        self._silent[connection] = None
        return connection

    def _greeted(self, connection: FramedConnection) -> None:
        self._silent.pop(connection, None)
        seat = self._seats.want(connection, connection.owner)
        if seat.instead is not None:
            self._refusals.count("connections", "one sent nothing, and others need its place")
            seat.instead.abort()
        if seat.refusal is not None:
            self._refusals.count("connections", seat.refusal)
            connection.abort()
            return
        self._streams[connection] = asyncio.create_task(self._serve(connection))

    def _lost(self, connection: FramedConnection) -> None:
        """Give up the stream of a connection: its answers have lost their reader."""
        if connection.stranger:
            self._refusals.count("greeting", stranger(connection, self.remedy))
        self._silent.pop(connection, None)
        self._seats.left(connection)
        serving = self._streams.pop(connection, None)
        if serving is not None:
            serving.cancel()

    async def _serve(self, connection: FramedConnection) -> None:
        """Serve a connection to its end, and close it."""
        raise NotImplementedError

    async def close(self) -> None:
        """Break off requests under way; answers that were written are still sent."""
        serving = list(self._streams.values())
        for connection in (*self._silent, *self._streams):
            connection.close()
        for stream in serving:
            stream.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


def stranger(connection: FramedConnection, remedy: str) -> str:
    """Say how a client greeted that speaks another protocol. Its bytes are not believed."""
    said = connection.stranger
    if said.startswith(TLS_RECORD):
        remedy = "it speaks TLS, and this port takes connections without TLS"
    elif said.split(b" ")[0] in HTTP_METHODS:
        remedy = "it speaks HTTP: give it the port of --metrics, or a gateway"
    return f"{connection.address or 'a client'} began with {said!r}: {remedy}"


@asynccontextmanager
async def listening(port: ConnectionPort, listen: str) -> AsyncIterator[str]:
    """Take the connections of a port on host:port while the block runs; yields the address with the
    real port. At its end every connection is broken off.

    Raises `ConfigurationError` when the address cannot be used.
    """
    host, number = split_address(listen)
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(port.connection, host.strip("[]"), number)
    except (OSError, UnicodeError) as error:  # for a name that cannot be an address
        raise ConfigurationError(cannot_listen(listen)) from error
    try:
        yield f"{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await port.close()

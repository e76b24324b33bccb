"""The port of a bookie of quire for clients of Apache BookKeeper.

It takes connections without TLS: START_TLS is answered as a bookie of Apache's does that has no
certificate. Places, silence and the bytes of messages are limited as at the port for plain frames.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from quire.bookkeeper.serving.answers import Storage
from quire.bookkeeper.serving.client_stream import ClientStream
from quire.bookkeeper.wire3 import MESSAGE_BYTES_MAX
from quire.storage.serving.connection_port import ConnectionPort, listening
from quire.storage.serving.limits import Reception
from quire.wire.framed import ConnectionOverError, FramedConnection

SILENT_SECONDS: Final = 300.0
"""A client of Java opens all its connections at once, and uses one when it has a request for it."""


class BookKeeperPort(ConnectionPort):
    """The connections of one listening socket."""

    remedy = "this port is for clients of Apache BookKeeper"

    def __init__(self, reception: Reception, storage: Storage, connections: int) -> None:
        super().__init__(
            reception,
            connections,
            greetings=(),
            message_max=MESSAGE_BYTES_MAX,
            silent_seconds=SILENT_SECONDS,
        )
        self._storage = storage

    async def _serve(self, connection: FramedConnection) -> None:
        try:
            with (
                suppress(ConnectionOverError),
                self._reception.stream_of(connection.owner) as full,
            ):
                if full is None:
                    spoke = partial(self._seats.spoke, connection)
                    stream = ClientStream(self._reception, self._storage, connection, spoke)
                    await stream.serve()
        except Exception as error:
            self._reception.failure(error)
        finally:
            connection.close()


@asynccontextmanager
async def serve_bookkeeper(
    reception: Reception, storage: Storage, listen: str, connections: int
) -> AsyncIterator[str]:
    """Take connections of Apache's clients on host:port while the block runs; yields the address
    with the real port.

    Args:
        reception: what all ports of the bookie share.
        storage: the bookie's storage, beside the port `Bookie`.
        listen: host:port; port 0 takes a free one.
        connections: the most at the same time.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    port = BookKeeperPort(reception, storage, connections)
    async with listening(port, listen) as address:
        yield address

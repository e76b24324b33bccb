"""The port of a bookie of quire for clients of Apache BookKeeper.

Places, silence and the bytes of messages are limited as at the port for plain frames.

A connection begins without TLS. With certificates START_TLS is taken: the socket goes on as a new
connection, with a layer of TLS below. So nothing that was said, or counted, without TLS is part of
it, and its owner is the identity of its certificate. Without certificates START_TLS is answered as
a bookie of Apache's does that has none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from quire.bookkeeper.serving.answers import Storage
from quire.bookkeeper.serving.client_stream import ClientStream, sized
from quire.bookkeeper.serving.codec import encode_reply
from quire.bookkeeper.serving.request import ClientRequest, Reply
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire3 import MESSAGE_BYTES_MAX
from quire.storage.serving.connection_port import ConnectionPort, listening
from quire.storage.serving.limits import Reception
from quire.wire.framed import ConnectionOverError, FramedConnection
from quire.wire.tls import Contexts
from quire.wire.tls_layer import TlsLayer

SILENT_SECONDS: Final = 300.0
"""A client of Java opens all its connections at once, and uses one when it has a request for it."""


TLS_ONLY: Final = (
    "this port serves clients by TLS only: give a client of Java tlsProviderFactoryClass and its "
    "certificate, and one of quire bookie-tls=yes"
)


class BookKeeperPort(ConnectionPort):
    """The connections of one listening socket."""

    remedy = "this port is for clients of Apache BookKeeper"

    def __init__(
        self, reception: Reception, storage: Storage, connections: int, tls: Contexts | None
    ) -> None:
        super().__init__(
            reception,
            connections,
            greetings=(),
            message_max=MESSAGE_BYTES_MAX,
            silent_seconds=SILENT_SECONDS,
        )
        self._storage = storage
        self._tls = tls

    def _refusal(self, connection: FramedConnection) -> str | None:
        """Say why the client of a connection is not served, None if it is."""
        if connection.has_tls:
            return connection.peer.complaint
        return TLS_ONLY if takes_tls_only(self._tls) else None

    async def _serve(self, connection: FramedConnection) -> None:
        connection.take_all()
        try:
            asked: ClientRequest | None = None
            with (
                suppress(ConnectionOverError),
                self._reception.stream_of(connection.owner) as full,
            ):
                if full is None:
                    spoke = partial(self._seats.spoke, connection)
                    stream = ClientStream(
                        *(self._reception, self._storage, connection, spoke),
                        offers_tls=self._tls is not None and not connection.has_tls,
                        refusal=self._refusal(connection),
                    )
                    asked = await stream.serve()
            if asked is not None and self._tls is not None:
                self._secure(connection, asked, self._tls)
        except Exception as error:
            self._reception.failure(error)
        finally:
            connection.close()

    def _secure(self, connection: FramedConnection, asked: ClientRequest, tls: Contexts) -> None:
        """Answer START_TLS, and let the socket go on as a new connection. In one step: the first
        bytes after the answer are TLS.
        """
        self._streams.pop(connection, None)  # ends by itself
        transport = connection.let_go()
        if transport is None:
            self._refusals.count("tls", f"{connection.address} sent more after START_TLS")
            return
        transport.writelines(sized(encode_reply(asked, Reply(Status.OK))))
        refused = partial(self._refusals.count, "tls")
        inner = self.received()
        layer = TlsLayer(tls.accept(), inner, is_server=True, on_refused=refused)
        transport.set_protocol(inner.inside(layer))
        layer.connection_made(transport)


def takes_tls_only(tls: Contexts | None) -> bool:
    """Whether a port with these certificates serves clients by TLS alone."""
    return tls is not None and tls.certificates.options.is_required


@asynccontextmanager
async def serve_bookkeeper(
    reception: Reception,
    storage: Storage,
    listen: str,
    connections: int,
    tls: Contexts | None = None,
) -> AsyncIterator[str]:
    """Take connections of Apache's clients on host:port while the block runs; yields the address
    with the real port.

    Args:
        reception: what all ports of the bookie share.
        storage: the bookie's storage, beside the port `Bookie`.
        listen: host:port; port 0 takes a free one.
        connections: the most at the same time.
        tls: certificates for START_TLS. Without TLS only AUTH is answered then, unless their mode
            is `optional`. None for a port without TLS.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    port = BookKeeperPort(reception, storage, connections, tls)
    async with listening(port, listen) as address:
        yield address

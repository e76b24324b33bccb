"""A channel to one bookie, which is made again when the files of its certificates have changed.

gRPC gives a reason for a failed connection in words of its own, and tells a client that was refused
nothing. So a channel with TLS that cannot connect makes one handshake by hand, to learn why.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc

from quire.aio.timing import time_limit
from quire.entry import BookieId
from quire.errors import (
    BookieUnavailableError,
    ClientRefusedError,
    QuireError,
    UntrustedBookieError,
)
from quire.wire import bookie_pb2 as pb
from quire.wire import bookie_pb2_grpc as rpc
from quire.wire import reads
from quire.wire.grpc_tls import UNAUTHENTICATED
from quire.wire.tls import HTTP2, Blame, Contexts, TlsError
from quire.wire.tls_layer import TlsLayer
from quire.wire.transport import RpcError, explain, open_channel

PROBE_SECONDS: Final = 2.0
"""How long the handshake by hand may take."""

UNKNOWN_REASON: Final = (
    "it ended the connection when it saw this client's certificate: its authority is not trusted "
    "there, or it has ended"
)


class BookieChannel:
    """The calls of one bookie over gRPC. Needs a running event loop.

    Args:
        address: host:port.
        bookie: its id.
        contexts: the certificates of this process; None for a connection without TLS.
    """

    def __init__(self, address: str, bookie: BookieId, contexts: Contexts | None = None) -> None:
        self._address = address
        self._bookie = bookie
        self._contexts = contexts
        self._version = 0
        self._retired: grpc.aio.Channel | None = None
        self._open()

    def _open(self) -> None:
        credentials = None
        if self._contexts is not None:
            self._version = self._contexts.version
            credentials = self._contexts.certificates.credentials
        self._channel = open_channel(self._address, self._bookie, credentials)
        self._stub: Any = rpc.BookieStub(self._channel)
        open_call: Any = self._channel.unary_stream  # yields bytes: reads.py takes them apart
        serialize = pb.ReadRequest.SerializeToString
        self._open_read = open_call(reads.METHOD, request_serializer=serialize)

    async def renew(self) -> None:
        """Make the channel again if the files have changed; calls under way go on by the old."""
        if self._contexts is None or self._contexts.version == self._version:
            return
        retired, self._retired = self._retired, self._channel
        self._open()
        if retired is not None:
            await retired.close(None)

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel for streams of runs."""
        return self._channel

    @property
    def stub(self) -> Any:
        """The calls with one answer."""
        return self._stub

    @property
    def open_read(self) -> Any:
        """The call `Read`, which answers in bytes."""
        return self._open_read

    async def explain(self, error: RpcError, timeout: float | None = None) -> QuireError:
        """Return the error of a call that failed; `timeout` is the deadline it had, in seconds."""
        reason = explain(error, timeout)
        if self._contexts is None:
            return BookieUnavailableError(self._bookie, reason)
        if error.code() is UNAUTHENTICATED:
            return ClientRefusedError(self._bookie, error.details() or reason)
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            return BookieUnavailableError(self._bookie, reason)
        found = await probe(self._address, self._bookie, self._contexts)
        if found is None:
            return BookieUnavailableError(self._bookie, reason)
        if found.blame is Blame.OURS:
            return ClientRefusedError(self._bookie, str(found))
        return UntrustedBookieError(self._bookie, str(found))

    async def close(self) -> None:
        """Break calls under way and release the connections. Harmless when called again."""
        for channel in (self._retired, self._channel):
            if channel is not None:
                await channel.close(None)


class _FirstAnswer(asyncio.Protocol):
    """Waits for the first bytes inside TLS, or the end."""

    def __init__(self) -> None:
        self.first: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._settle(True)

    def connection_lost(self, error: Exception | None) -> None:
        self._settle(False)

    def _settle(self, has_answered: bool) -> None:
        if not self.first.done():
            self.first.set_result(has_answered)


async def probe(address: str, bookie: BookieId, contexts: Contexts) -> TlsError | None:
    """Return why TLS fails between this process and a bookie's port of gRPC.

    A server of HTTP/2 speaks first. If it ends the connection instead, after a whole handshake, it
    has refused the certificate.

    Args:
        address: host:port.
        bookie: its id.
        contexts: the certificates of this process.

    Returns:
        The failure; None if TLS works, or if the server cannot be reached.
    """
    host, _, port = address.rpartition(":")
    inner = _FirstAnswer()
    layer = TlsLayer(contexts.open(bookie, HTTP2), inner, is_server=False)
    try:
        async with time_limit(PROBE_SECONDS):
            await asyncio.get_running_loop().create_connection(
                lambda: layer, host.strip("[]"), int(port)
            )
            await layer.opened
            has_answered = await inner.first
    except TlsError as error:
        return error
    except (OSError, ValueError):  # no time is an error of the system, too
        return None
    finally:
        layer.abort()
    return None if has_answered else TlsError(Blame.OURS, UNKNOWN_REASON)

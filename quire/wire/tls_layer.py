"""TLS between a connection and its protocol: the inner protocol sees a transport as any other.

`TlsLayer` is a protocol to the socket's transport and a transport to the protocol inside, which
hears of the connection once the handshake is over. It bounds the handshake in time, ends the
connection with the life of the other side's certificate, and lets a refused client hear why: the
alert is sent, and the client is read for some seconds, since to close a connection with bytes
unread would destroy the alert on its way.

Invariant: nothing of the inner protocol is sent before the handshake, and nothing that came is
handed to it unless the other side's certificate was verified.

Not here: the meaning of the bytes (framed.py), and TLS itself (tls.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from quire.wire.tls import HANDSHAKE_BYTE, Blame, TlsError, TlsSession, describe_end

HANDSHAKE_SECONDS: Final = 10.0
"""Both sides have so long for a handshake, from the beginning of the connection."""

LINGER_SECONDS: Final = 5.0
"""A refused client has so long to go."""

LOOK_SECONDS_MAX: Final = 3600.0
"""The life of a certificate is compared with the clock this often: the clock may be set."""


CLOSED: Final = "it closed the connection"


class CertificateEndedError(ConnectionError):
    """A connection that ended with the life of the other side's certificate."""


class TlsLayer(asyncio.Protocol):
    """One connection. Make it as the protocol of a socket's transport.

    Args:
        session: its end of TLS.
        inner: the protocol of the bytes inside.
        is_server: whether the other side began.
        refuse_plain: gives a server's answer to a client without TLS, by its first bytes.
        on_refused: called with the reason when a server ends a handshake.
    """

    def __init__(
        self,
        session: TlsSession,
        inner: asyncio.Protocol,
        *,
        is_server: bool,
        refuse_plain: Callable[[bytes], bytes] | None = None,
        on_refused: Callable[[str], None] | None = None,
    ) -> None:
        self._session = session
        self._inner = inner
        self._is_server = is_server
        self._refuse_plain = refuse_plain
        self._on_refused = on_refused
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._is_made = False
        """Whether the inner protocol knows of the connection."""
        self._is_lingering = False
        self._has_come = False
        self._error: Exception | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self.opened: asyncio.Future[None] = self._loop.create_future()
        """Done after the handshake; fails with `TlsError` or `OSError`."""

    # The protocol of the socket's transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._alarm = self._loop.call_later(HANDSHAKE_SECONDS, self._out_of_time)
        if not self._is_server:
            self._session.begin()
            self._flush()

    def data_received(self, data: bytes) -> None:
        if self._is_lingering or self._error is not None:
            return
        if not self._has_come:
            self._has_come = True
            if self._refuse_plain is not None and data[0] != HANDSHAKE_BYTE:
                self._refuse("it speaks no TLS", self._refuse_plain(data))
                return
        try:
            for chunk in self._session.receive(data):
                if not self._is_made:
                    self._open()
                self._inner.data_received(chunk)
            if self._session.is_open and not self._is_made:
                self._open()
        except TlsError as error:
            self._fail(error)
            return
        self._flush()
        if self._session.has_ended and self._transport is not None:
            self._transport.close()

    def eof_received(self) -> bool | None:
        return None  # the transport closes itself

    def connection_lost(self, error: Exception | None) -> None:
        self._forget_alarm()
        error = self._error or error
        if self._is_made:
            self._inner.connection_lost(error)
        else:
            # It never was a connection to the protocol inside, which may wait to count its end.
            error = self._error or self._closed_early(error)
            self._inner.connection_lost(error)
        if not self.opened.done():
            self.opened.set_exception(error or ConnectionResetError(CLOSED))
        if not self.opened.cancelled():
            self.opened.exception()  # a server does not look

    def _closed_early(self, error: Exception | None) -> Exception:
        """Return why a handshake has no end. A port without TLS closes the connection."""
        if self._is_server:
            return error or ConnectionResetError(CLOSED)
        return TlsError(Blame.NEITHER, "it closed the connection instead of a TLS handshake")

    def pause_writing(self) -> None:
        if self._is_made:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._is_made:
            self._inner.resume_writing()

    # The transport of the inner protocol.

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._send(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        """Send the parts of a message."""
        self._send(*parts)

    def close(self) -> None:
        """Send all written bytes, then end the connection."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._session.is_open and self._error is None:
            self._session.end()
            self._flush()
        self._transport.close()

    def abort(self) -> None:
        """End the connection now."""
        if self._transport is not None:
            self._transport.abort()

    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._error is not None or self._transport is None or self._transport.is_closing()

    def pause_reading(self) -> None:
        """Take no bytes for now."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Say how many bytes may wait to be sent."""
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a fact of the connection; `peer` is the other side's `Peer`."""
        if name == "peer":
            return self._session.peer
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    # Inside.

    def _send(self, *parts: bytes) -> None:
        if self.is_closing():
            return
        self._session.write(*parts)
        self._flush()

    def _flush(self) -> None:
        data = self._session.outgoing()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _open(self) -> None:
        self._flush()
        self._forget_alarm()
        self._is_made = True
        self._watch_life()
        if not self.opened.done():
            self.opened.set_result(None)
        self._inner.connection_made(cast("asyncio.BaseTransport", self))

    def _watch_life(self) -> None:
        """End the connection when the certificate of the other side ends."""
        end = self._session.peer.end
        if end is None:
            return
        left = end - self._session.clock()
        if left <= 0:
            self._error = CertificateEndedError(describe_end(end))
            self.abort()
        else:
            self._alarm = self._loop.call_later(min(left, LOOK_SECONDS_MAX), self._watch_life)

    def _fail(self, error: TlsError) -> None:
        if self._is_server and not self._is_made:
            self._refuse(str(error), self._session.outgoing())
            return
        self._flush()
        self._error = error
        self.abort()

    def _refuse(self, reason: str, answer: bytes) -> None:
        """Tell a client why, and read it for some seconds."""
        self._is_lingering = True
        self._error = ConnectionRefusedError(reason)
        if self._on_refused is not None:
            self._on_refused(reason)
        self._forget_alarm()
        if self._transport is None:
            return
        self._transport.write(answer)
        self._alarm = self._loop.call_later(LINGER_SECONDS, self.abort)
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _out_of_time(self) -> None:
        self._error = TimeoutError(f"no TLS handshake within {HANDSHAKE_SECONDS:g} s")
        if self._on_refused is not None:
            self._on_refused(str(self._error))
        self.abort()

    def _forget_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

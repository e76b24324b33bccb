"""Messages over plain TCP, for runs: gRPC's own work would cost more than the runs'.

One connection is one stream. It begins with a greeting of the client; then each side sends frames,
each the size of a message in four bytes, big-endian, and the message (docs/formats.md, "Wire").
There is nothing else: the stream decides which side sends which message, and when. A side that
closes is gone, it does not hear answers any more; a stream that breaks is never mended.

Invariants: at most `RECEIVED_BYTES_MAX` and one message wait to be read, then the other side has to
wait; so it has to while a server has no space for a message (inbox.py), while its other large
messages come in, and while `MESSAGES_MAX` small ones wait. A frame larger than a message may be
ends the connection before it is taken in.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Final, NamedTuple, Protocol, cast

from quire.wire.identity import owner_of
from quire.wire.inbox import Inbox, MessageSpace
from quire.wire.tls import Peer, TlsError, TlsSession
from quire.wire.tls_layer import TlsLayer
from quire.wire.transport import KEEPALIVE_SECONDS, MESSAGE_BYTES_MAX

GREETING: Final = b"quire/runs/1\n"
"""The first bytes of a connection: a client that sends others speaks another protocol."""

HELLO_GREETING: Final = b"quire/runs/2\n"
"""The first bytes of a connection on which each side's first message is a hello (hello.py)."""

assert len(GREETING) == len(HELLO_GREETING)

GREETINGS: Final = (GREETING, HELLO_GREETING)
"""What clients of quire begin a connection with."""

RECEIVED_BYTES_MAX: Final = MESSAGE_BYTES_MAX
"""So much may wait to be read before nothing more is taken from the other side."""

GREETING_SECONDS: Final = 10.0
"""A client that sends nothing for so long after connecting does not speak this protocol."""

LARGE_BYTES: Final = 2 * 1024 * 1024
"""A message above it needs a turn at a server: twice the largest message of small entries."""

MESSAGES_MAX: Final = 256
"""So many messages of a client are taken apart before they are read. 256 KiB may come at once, and
be 65,536 messages without bytes, on each of many connections."""

_SIZE: Final = struct.Struct(">I")
_SENT_BYTES_MAX: Final = 1024 * 1024
_PROBES: Final = 3


UNWANTED: Final = "it was ended before it was made"


class ConnectionOverError(Exception):
    """A connection that ended, or never began, with the reason in a few words."""


class Budget(Protocol):
    """Bytes that the other sides of all connections may make a server hold."""

    def hold(self, holder: Hashable, size: int, drop: Callable[[str], None], owner: str, /) -> bool:
        """Count all bytes held for a connection now; False without space for it."""
        ...

    def release(self, holder: Hashable, /) -> None:
        """Forget a connection. Harmless when it holds nothing."""
        ...


class Turns(Protocol):
    """Turns of one peer's large messages (quire/storage/serving/large_messages.py)."""

    def begin(self, holder: Hashable, owner: str, go_on: Callable[[], None], /) -> bool:
        """Ask for a turn: whether it comes now, else `go_on` is called when it does."""
        ...

    def end(self, holder: Hashable, /) -> None:
        """Give a turn back, or stop waiting. Harmless without either."""
        ...


class Budgets(NamedTuple):
    """The budgets of a server's connections."""

    unfinished: Budget
    """Messages that are not whole."""
    unread: Budget
    """Messages that the other side has not taken."""
    received: MessageSpace
    """Messages that have come, until they are worked on."""
    large: Turns
    """Messages above `LARGE_BYTES` that come in."""


class FramedConnection(asyncio.Protocol):
    """One end of a connection, once it is made. One reader and one writer at a time.

    A server gives `on_greeted`, called when its client has greeted, and the `budgets` of all its
    connections; `on_lost` is called when the connection is gone. Without `greetings` to choose
    from, a client has greeted when it begins a message. `message_max` is the size
    of the largest, and a client may be silent for `silent_seconds`, 10 when None.
    """

    def __init__(
        self,
        *,
        on_greeted: Callable[[FramedConnection], None] | None = None,
        on_lost: Callable[[FramedConnection], None] | None = None,
        budgets: Budgets | None = None,
        greeting: bytes = GREETING,
        greetings: Sequence[bytes] = GREETINGS,
        message_max: int = MESSAGE_BYTES_MAX,
        silent_seconds: float | None = None,
    ) -> None:
        self._silent_seconds = GREETING_SECONDS if silent_seconds is None else silent_seconds
        self._greetings = greetings
        self._message_max = message_max
        self.greeting = greeting
        """The greeting that a client sends, or that a server has received."""
        self._on_greeted = on_greeted
        """None once the greeting has come."""
        self._on_lost = on_lost
        self._budgets = budgets
        self._is_unfinished = False
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._layer: TlsLayer | None = None
        self.peer = Peer()
        """The other side, as its certificate tells, once the connection is made."""
        self._parts: list[bytes] = []
        self._size = 0
        greets = on_greeted is not None and greetings
        self._wanted = len(GREETING) if greets else _SIZE.size
        space = None if budgets is None else budgets.received
        self._inbox = Inbox(space, lambda: self.owner, self._more_space)
        self._messages_max = sys.maxsize if budgets is None else MESSAGES_MAX
        self._is_behind = False
        """Whether bytes that came are not taken apart yet."""
        self._is_paused = False
        self._awaits_turn = False
        """Whether the rest of a large message is not to be read yet."""
        self._arrival: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._is_full = False
        self._over: str | None = None
        self._error: Exception | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self.stranger = b""
        """The first bytes of a client that greeted in another way; empty for other clients."""

    @property
    def address(self) -> str:
        """Where the other side is, host:port; empty while that is not known."""
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else ""

    async def read(self) -> bytes | None:
        """Return the next message, None after the last when the other side has closed.

        Raises `ConnectionOverError` when the connection broke. Cancelling loses nothing.
        """
        self._inbox.done()
        while not self._inbox:
            if self._over is not None:
                if self._over:
                    raise ConnectionOverError(self._over) from self._error
                return None
            self._arrival = self._loop.create_future()
            await self._arrival
        message = self._inbox.take()
        if self._is_behind and len(self._inbox) <= self._messages_max // 2:
            self._catch_up()
        self._go_on()
        return message

    def take_all(self) -> None:
        """Take all messages apart as they come: their sender is held up in other ways."""
        self._messages_max = sys.maxsize
        if self._is_behind:
            self._catch_up()
            self._go_on()

    def _catch_up(self) -> None:
        """Take more of the bytes apart that came."""
        data = b"".join(self._parts)
        self._parts = [data]
        self._take_whole(data)
        self._tell_held()

    def _go_on(self) -> None:
        """Take more from the other side, if there is space again."""
        inbox = self._inbox
        is_full = self._is_behind or inbox.waiting_bytes or inbox.size > RECEIVED_BYTES_MAX // 2
        if self._is_paused and not self._awaits_turn and not is_full:
            self._is_paused = False
            if self._over is None and self._transport is not None:
                self._transport.resume_reading()

    def _more_space(self) -> None:
        _wake(self._arrival)
        self._go_on()
        self._tell_held()

    def write(self, *parts: bytes) -> Coroutine[None, None, None]:
        """Send a message, given in parts, or have it sent when there is room. Raises
        `ConnectionOverError`.
        """
        return self.write_packed((_SIZE.pack(sum(map(len, parts))), *parts))

    async def write_packed(self, pieces: Sequence[bytes]) -> None:
        """Send the pieces of messages that have their sizes, as `write` does."""
        while self._is_full and self._over is None:
            self._room = self._loop.create_future()
            await self._room
        if self._over is not None or self._transport is None or self._transport.is_closing():
            raise ConnectionOverError(self._over or "the connection is closed") from self._error
        self._transport.writelines(pieces)

    def close(self) -> None:
        """Send the written bytes, then end the connection; if it is being made, end it then."""
        if self._transport is not None:
            self._transport.close()
        else:
            self.abort()

    def abort(self) -> None:
        """End the connection now; if it is being made, end it when it is made."""
        if self._transport is not None:
            self._transport.abort()
            return
        self._over = UNWANTED
        if self._layer is not None:
            self._layer.abort()

    def let_go(self) -> asyncio.Transport | None:
        """Give the transport away, to a layer of TLS; for its server this connection is over.

        Returns:
            The transport, which is read; its protocol is to be set at once. None when the other
            side is gone, or has sent more than was read: such bytes came without TLS, and a third
            machine may have put them in.
        """
        transport = self._transport
        if self._over is not None or transport is None or transport.is_closing():
            return None
        if self._size or self._inbox:
            return None
        if self._is_paused:
            transport.resume_reading()
        self._transport = None
        self.connection_lost(None)
        return transport

    @property
    def has_tls(self) -> bool:
        """Whether it has a layer of TLS below."""
        return self._layer is not None

    def inside(self, layer: TlsLayer) -> TlsLayer:
        """Have a layer of TLS below, which tells of the connection after its handshake."""
        self._layer = layer
        return layer

    # Reports of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast("asyncio.Transport", transport)  # uvloop has another type
        if self._over is not None:
            made.abort()
            return
        self.peer = made.get_extra_info("peer") or self.peer
        _probe(made.get_extra_info("socket"))
        made.set_write_buffer_limits(high=_SENT_BYTES_MAX)
        if self._on_greeted is None:
            made.write(self.greeting)
        else:
            self._alarm = self._loop.call_later(
                self._silent_seconds, self._break, "it says nothing"
            )

    def connection_lost(self, error: Exception | None) -> None:
        if self._over is None:
            self._over, self._error = ("" if error is None else _reason(error)), error
            if self._on_greeted is not None:
                self.stranger = b"".join(self._parts)[: len(GREETING)]
        self._is_full = False
        self._parts, self._size = [], 0  # a cycle of references may keep this object for long
        self._is_behind = False
        self._forget_alarm()
        if self._budgets is not None:
            self._budgets.unfinished.release(self)
            self._budgets.unread.release(self)
            self._budgets.large.end(self)
        self._inbox.close()
        for waiter in (self._arrival, self._room):
            _wake(waiter)
        if self._on_lost is not None:
            self._on_lost(self)

    def pause_writing(self) -> None:
        self._is_full = True
        if self._budgets is not None:
            self._hold(self._budgets.unread, _SENT_BYTES_MAX)

    def resume_writing(self) -> None:
        self._is_full = False
        if self._budgets is not None:
            self._budgets.unread.release(self)
        _wake(self._room)

    def _hold(self, budget: Budget, size: int) -> None:
        if not budget.hold(self, size, self._break, self.owner) and self._over is None:
            self._break("too many bytes are held for others")

    @property
    def owner(self) -> str:
        """The name under which the connections of the other side share limits."""
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return owner_of(self.peer.identity, str(name[0]) if isinstance(name, tuple) else "")

    def data_received(self, data: bytes) -> None:
        if self._over is not None:
            return
        self._parts.append(data)
        self._size += len(data)
        if self._size >= self._wanted:
            self._take_whole(data)
        if self._on_greeted is None:
            self._tell_held()

    def _tell_held(self) -> None:
        """Tell the bytes without space: those held by a partial message, and by waiting ones."""
        if self._budgets is None:
            return
        held = self._size + self._inbox.waiting_bytes
        if held and self._over is None:
            self._is_unfinished = True
            self._hold(self._budgets.unfinished, held)
        elif self._is_unfinished:
            self._is_unfinished = False
            self._budgets.unfinished.release(self)

    def _take_whole(self, data: bytes) -> None:
        has_message = (
            len(self._parts) > 1 and self._wanted > _SIZE.size and self._on_greeted is None
        )
        if has_message:
            data = self._take_long(data)
        elif len(self._parts) > 1:
            data = b"".join(self._parts)
        at = self._take(data)
        self._parts, self._size = ([data[at:]] if at < len(data) else []), len(data) - at
        at += has_message
        if at and self._is_unfinished and self._budgets is not None:
            self._is_unfinished = False  # the rest begins another message, with its own age
            self._budgets.unfinished.release(self)
        inbox = self._inbox
        if inbox:
            _wake(self._arrival)
        is_full = self._is_behind or inbox.waiting_bytes or inbox.size > RECEIVED_BYTES_MAX
        if not self._is_paused and (self._awaits_turn or is_full):
            self._is_paused = True
            assert self._transport is not None
            self._transport.pause_reading()

    def _take_long(self, data: bytes) -> bytes:
        """Take the message that came in several parts, the last of them in `data`; return what
        came after it. Its bytes are copied once.
        """
        end = len(data) - (self._size - self._wanted)
        first, *others = self._parts[:-1]
        head, tail = memoryview(first)[_SIZE.size :], memoryview(data)[:end]
        self._inbox.put(b"".join([head, *others, tail]))
        if self._budgets is not None:
            self._awaits_turn = False  # bytes under way when the reading stopped
            self._budgets.large.end(self)
        return data[end:]

    def _want_turn(self, budgets: Budgets) -> None:
        """Ask for the turn of a large message, once for each."""
        self._awaits_turn = not budgets.large.begin(self, self.owner, self._turn_has_come)

    def _turn_has_come(self) -> None:
        self._awaits_turn = False
        self._go_on()

    def _take(self, data: bytes) -> int:
        """Take whole messages off the front; return where the first that is not whole begins."""
        at = 0
        if self._on_greeted is not None:
            if self._greetings:
                self.greeting = data[: len(GREETING)]
                if self.greeting not in self._greetings:
                    self.stranger = self.greeting
                    self._break("it speaks another protocol")
                    return len(data)
                at = len(GREETING)
            self._forget_alarm()
            self._on_greeted(self)
            self._on_greeted = None
        room = self._messages_max - len(self._inbox)
        self._is_behind = False
        while len(data) - at >= _SIZE.size:
            if room <= 0:
                self._is_behind = True
                break
            room -= 1
            (size,) = _SIZE.unpack_from(data, at)
            if size > self._message_max:
                self._break(f"it sent a message of {size} bytes")
                return len(data)
            end = at + _SIZE.size + size
            if end > len(data):
                self._wanted = _SIZE.size + size
                if size > LARGE_BYTES and self._budgets is not None:
                    self._want_turn(self._budgets)
                return at
            self._inbox.put(data[at + _SIZE.size : end])
            at = end
        self._wanted = _SIZE.size
        return at

    def _forget_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _break(self, reason: str) -> None:
        self._over = reason
        self._parts, self._size = [], 0
        self.abort()


def pack_message(message: bytes) -> bytes:
    """Return a message as the bytes of its frame."""
    return _SIZE.pack(len(message)) + message


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _reason(error: Exception) -> str:
    """Say what happened in the words of the system, whichever event loop met it."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or repr(error)


def _probe(connection: socket.socket) -> None:
    """Have the kernel try a silent connection, so that a dead peer is noticed in the end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), KEEPALIVE_SECONDS)
    if hasattr(socket, "TCP_KEEPCNT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)


async def connect(
    address: str, greeting: bytes = GREETING, session: TlsSession | None = None
) -> FramedConnection:
    """Open a connection to host:port, by TLS if there is a session for it, and greet.

    Raises `ConnectionOverError` when no server answers there; its cause is a `TlsError` if TLS
    failed. A server may refuse this side's certificate later: reading tells.
    """
    host, _, port = address.rpartition(":")
    connection = FramedConnection(greeting=greeting)
    layer = None
    if session is not None:
        layer = connection.inside(TlsLayer(session, connection, is_server=False))
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: layer or connection, host.strip("[]"), int(port)
        )
        if layer is not None:
            await layer.opened
    except (OSError, TlsError, ValueError, OverflowError) as error:  # the latter: not an address
        raise ConnectionOverError(f"{address}: {_reason(error)}") from error
    except BaseException:
        connection.abort()
        raise
    return connection

"""The HTTP server of one process, for its applications: a socket, and uvicorn without signals.

A client that stalls keeps no connection, and no memory of an answer that it does not take. There
are so many connections at most: each of them has a descriptor, which the process needs for others.
A connection counts from its first moment, before its handshake of TLS.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from quire.aio.accepting import accept_connections
from quire.aio.tasks import Tasks, first_of
from quire.errors import ConfigurationError
from quire.wire.transport import cannot_listen, split_address

GRACE_SECONDS: Final = 5
"""How long answers under way may take when a server ends."""

IDLE_SECONDS: Final = 75
"""A connection without requests is closed after so long. Clients and load balancers keep theirs
for 60 s at most by default, mostly. The client should close it: a request that is
sent while the server closes the connection is lost, and only the client can tell.
"""

HEAD_SECONDS: Final = 60.0
"""A request comes so long after its first byte, up to its body. The application waits for that."""

HANDSHAKE_SECONDS: Final = 10.0
"""A client makes its handshake of TLS within so long."""

TAKE_SECONDS: Final = 60.0
"""A client takes an answer, or a part of a stream, within so long."""

LOOK_SECONDS: Final = 1.0
"""So often a connection looks whether its client has taken the end of an answer."""

BELOW_TLS_SECONDS: Final = 10.0
"""An answer counts as taken so long after TLS has taken it. How much of it waits below TLS for the
client, event loops do not tell.
"""

_LENGTHS: Final = {b"content-length", b"transfer-encoding"}
"""Headers that say where a body ends."""

_log = logging.getLogger(__name__)


def bind(listen: str) -> socket.socket:
    """Return a socket that listens on host:port. Raises `ConfigurationError`."""
    host, port = split_address(listen)
    plain = host.strip("[]")
    try:
        family = socket.AF_INET6 if ":" in plain else socket.AF_INET
        listening = socket.create_server((plain, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(cannot_listen(listen)) from error
    # Its connections inherit it. asyncio sets it only for sockets that name their protocol.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class _OneLengthConnection(h11.Connection):
    """h11's parser, which refuses a body with two lengths.

    A proxy on the way may have believed the other one. The rest of the body would be the next
    request then, in the name of another client (request smuggling; RFC 9112, 6.1).
    """

    def next_event(self) -> Any:
        """Return the next event. Raises `h11.RemoteProtocolError` for a request as above, too."""
        event = super().next_event()
        if isinstance(event, h11.Request) and {name for name, _ in event.headers} >= _LENGTHS:
            raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        return event


class ConnectionTable(Protocol):
    """The connections of a server. It decides which one ends."""

    def enter(self, connection: TimedProtocol, /) -> TimedProtocol | None:
        """Count a new connection. Return the connection to end for it, perhaps itself."""
        ...

    def speak(self, connection: TimedProtocol, /) -> None:
        """Note that a request of a connection was permitted."""
        ...

    def work(self, connection: TimedProtocol, /) -> None:
        """Note that a connection has a request under way: it is not ended for another one."""
        ...

    def rest(self, connection: TimedProtocol, /) -> None:
        """Note that a connection has no request under way."""
        ...

    def leave(self, connection: TimedProtocol, /) -> None:
        """Forget a connection. Harmless if it is not counted."""
        ...


_PERMITTED: Final = "quire.permitted"
"""The key in a request's state; the value tells its connection that the request is permitted."""


def permit(scope: Mapping[str, Any]) -> None:
    """Tell a request's connection that the request is permitted: its sender is no stranger.

    Harmless for a request of another server.
    """
    scope.get("state", {}).get(_PERMITTED, _tell_no_connection)()


def _tell_no_connection() -> None:
    """Another server has the connection."""


class TimedProtocol(H11Protocol):
    """uvicorn's side of a connection, with a time for each wait for the client.

    uvicorn itself limits the wait for a further request only: not for the first one, nor for the
    rest of a request, nor until a client takes an answer.
    """

    def __init__(self, *args: Any, table: ConnectionTable | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self._table = table
        self._is_known = False
        self.handshake: asyncio.Task[None] | None = None
        """Opens the connection; None once it is open."""
        self._answered_at = 0.0
        self.app_state = {**self.app_state, _PERMITTED: self._permitted}
        self.conn = _OneLengthConnection(h11.SERVER)
        self._head_until: float | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._looking: asyncio.TimerHandle | None = None

    def enter(self) -> bool:
        """Take a place in the table, before the handshake; return whether there is one."""
        ended = None if self._table is None else self._table.enter(self)
        if ended is not None and ended is not self:
            ended.end()
        return ended is not self

    def leave(self) -> None:
        """Give the place back."""
        if self._table is not None:
            self._table.leave(self)

    def end(self) -> None:
        """End the connection at once, whatever it does."""
        if self.handshake is None:
            self.transport.abort()
        else:
            self.handshake.cancel()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        self.handshake = None
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request that has begun."""
        super().data_received(data)
        self._note_work()
        if self.transport.is_closing():
            self._await_taking()
        elif self.cycle is not None and not self.cycle.response_complete:
            self._head_until = None
        else:
            self._await_head()

    def _permitted(self) -> None:
        self._is_known = True
        if self._table is not None:
            self._table.speak(self)
            self._note_work()

    def _note_work(self) -> None:
        if self._table is None:
            return
        self._end_looking()
        if not self._is_under_way():
            self._table.rest(self)
            return
        self._table.work(self)
        if self._is_answered():  # no event tells when the client has taken the rest
            self._looking = self.loop.call_later(LOOK_SECONDS, self._note_work)

    def _is_under_way(self) -> bool:
        """Return whether a request is under way. A stranger's is not while the application waits
        for the stranger: a request could be begun and not sent, or its answer not taken.
        """
        is_answered = self._is_answered()
        if not self._is_known:
            return not (is_answered or self.cycle.more_body or self.flow.write_paused)
        return not (is_answered and self._is_taken() and self._is_between_requests())

    def _is_answered(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def _is_taken(self) -> bool:
        if self.transport.get_write_buffer_size():
            return False
        is_plain = self.transport.get_extra_info("sslcontext") is None
        return is_plain or self.loop.time() >= self._answered_at + BELOW_TLS_SECONDS

    def _is_between_requests(self) -> bool:
        return self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def _await_head(self) -> None:
        now = self.loop.time()
        if self._is_between_requests():
            until = now + self.timeout_keep_alive
            self._head_until = None
        else:  # further bytes give a client no further time
            until = self._head_until = self._head_until or now + HEAD_SECONDS
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_at(until, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, whatever is left to send."""
        super().timeout_keep_alive_handler()
        self._await_taking()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP. Beside an answer that has begun they only end the
        connection.
        """
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Limit the end of a connection that takes no further request."""
        super().on_response_complete()
        self._answered_at = self.loop.time()
        self._note_work()
        if self.transport.is_closing():
            self._await_taking()

    def pause_writing(self) -> None:
        """Wait until the client takes something."""
        super().pause_writing()
        self._note_work()
        self._await_taking()

    def resume_writing(self) -> None:
        """Go on: the client has taken nearly all."""
        super().resume_writing()
        self._note_work()
        if not self.transport.is_closing():
            self._end_taking()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._end_taking()
        self._end_looking()
        self.leave()
        self._table = None  # an answer may still come to its end
        super().connection_lost(exc)

    def _await_taking(self) -> None:
        if self._taking is None:
            self._taking = self.loop.call_later(TAKE_SECONDS, self.transport.abort)

    def _end_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _end_taking(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None


class _QuietServer(uvicorn.Server):
    """uvicorn's server without its handlers of signals: the command has its own. It accepts
    connections itself, to count them before their handshakes.
    """

    def __init__(self, config: uvicorn.Config, table: ConnectionTable | None) -> None:
        super().__init__(config)
        self._table = table
        self._tasks = Tasks()
        self.begun = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take connections, and tell that requests are answered."""
        await super().startup([])
        for each in sockets or ():
            each.setblocking(False)
            accepting = accept_connections(each, self._welcome, "the port for HTTP")
            self._tasks.start(accepting, "takes connections for HTTP")
        self.begun.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no further connection, end handshakes, and let answers under way end."""
        await self._tasks.stop()
        await super().shutdown(sockets)

    def _welcome(self, accepted: socket.socket) -> None:
        connection = TimedProtocol(
            self.config, self.server_state, self.lifespan.state, table=self._table
        )
        if not connection.enter():
            accepted.close()
            return
        opening = self._open(connection, accepted)
        connection.handshake = self._tasks.start(opening, "opens a connection for HTTP")
        connection.handshake.add_done_callback(partial(_opened, connection, accepted))

    async def _open(self, connection: TimedProtocol, accepted: socket.socket) -> None:
        """Begin a connection, after its handshake if there is TLS."""
        tls = self.config.ssl
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
            )
        except asyncio.CancelledError:
            if connection.handshake is None:  # it ended meanwhile: TLS would wait for the client
                connection.end()
            raise
        except OSError as error:
            _log.info("a client of the port for HTTP made no handshake: %s", error)


def _opened(connection: TimedProtocol, accepted: socket.socket, _: asyncio.Task[None]) -> None:
    if connection.handshake is not None:  # it has failed, or did not begin
        connection.leave()
        accepted.close()


async def serve_application(
    application: Callable[..., Awaitable[None]],
    listening: socket.socket,
    *,
    ready: Callable[[], None],
    ending: Callable[[], Awaitable[None]],
    table: ConnectionTable | None = None,
    **more: Any,
) -> None:
    """Answer requests until cancelled. Then call `ending`, and let answers under way end.

    `ready` is called once requests are answered. `table` bounds the connections.
    `more` goes to `uvicorn.Config`.
    """
    config = uvicorn.Config(
        application,
        http=TimedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,  # a program could name itself a proxy of any address
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        **more,
    )
    server = _QuietServer(config, table)
    serving = Tasks().keep(server.serve(sockets=[listening]))
    try:
        await first_of(server.begun.wait(), _ended(serving))
        ready()
        await _ended(serving)
    finally:
        await ending()
        server.should_exit = True
        await _ended(serving)


async def _ended(serving: asyncio.Future[None]) -> None:
    """Wait for the end of the server. A cancellation of the wait does not end it."""
    await asyncio.shield(serving)

"""Connections of clients that stall, in virtual time and without sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from quire.gateway.space import ConnectionPlaces
from quire.http_server import (
    HANDSHAKE_SECONDS,
    HEAD_SECONDS,
    IDLE_SECONDS,
    TAKE_SECONDS,
    ConnectionTable,
    TimedProtocol,
    bind,
    permit,
    serve_application,
)
from quire.wire.issuing import DAY
from tests.support.silent_tls import shake_hands
from tests.wire.certificates import authority

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
WAIT = GET.replace(b" / ", b" /wait ")
REFUSED = GET.replace(b" / ", b" /refused ")
LARGE = 1_000_000


class Wire(asyncio.Transport):
    """A client's end of a connection: it takes nothing unless `takes` is set."""

    def __init__(self, protocol: asyncio.Protocol, *, takes: bool) -> None:
        super().__init__()
        self.protocol = protocol
        self.takes = takes
        self.written = b""
        self.left = b""
        """What the client has not taken."""
        self.is_lost = False
        self._is_closing = False
        protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.written += bytes(data)
        if not self.takes and not self.is_lost:
            self.left += bytes(data)
            if len(self.left) > 65_536:
                self.protocol.pause_writing()

    def take(self) -> None:
        self.left = b""
        self.protocol.resume_writing()

    def close(self) -> None:
        self._is_closing = True
        if not self.left:
            self.abort()

    def abort(self) -> None:
        self._is_closing = True
        if not self.is_lost:
            self.is_lost = True
            self.left = b""
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return len(self.left)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Answering:
    """An application that answers with so many bytes, and counts answers that were taken. It
    permits each request but those of `/refused`, and answers the ones of `/wait` once it may.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.may_answer = asyncio.Event()
        self.begun = 0
        self.taken = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun += 1
        if scope["path"] != "/refused":
            permit(scope)
        if scope["path"] == "/wait":
            await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        part = {"type": "http.response.body", "more_body": True}
        await send(part | {"body": bytes(self.size)})
        await send(part | {"body": b"", "more_body": False})
        self.taken += 1


class Slow(Answering):
    """An application that waits for the whole body first."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await super().__call__(scope, receive, send)


def connected(
    application: Answering, *, takes: bool = True, table: ConnectionTable | None = None
) -> Wire:
    config = uvicorn.Config(
        application, log_config=None, lifespan="off", timeout_keep_alive=IDLE_SECONDS, ws="none"
    )
    protocol = TimedProtocol(config, ServerState(), {}, table=table)
    has_place = protocol.enter()
    wire = Wire(protocol, takes=takes)
    if not has_place:
        wire.abort()
    return wire


async def test_a_connection_without_a_request_is_closed() -> None:
    wire = connected(Answering(1))
    await asyncio.sleep(IDLE_SECONDS - 1)
    assert not wire.is_lost
    await asyncio.sleep(2)
    assert wire.is_lost


async def test_a_request_that_comes_byte_by_byte_is_not_waited_for() -> None:
    wire = connected(Answering(1))
    await asyncio.sleep(IDLE_SECONDS - 1)
    wire.protocol.data_received(GET[:-2])
    for _ in range(int(HEAD_SECONDS) - 1):
        await asyncio.sleep(1)
        wire.protocol.data_received(b"X: y\r\n")
        assert not wire.is_lost
    await asyncio.sleep(2)
    assert wire.is_lost


async def test_a_connection_is_kept_between_requests_and_while_one_is_answered() -> None:
    application = Answering(1)
    wire = connected(application)
    for number in range(1, 4):
        wire.protocol.data_received(GET[:9])
        await asyncio.sleep(HEAD_SECONDS - 1)
        wire.protocol.data_received(GET[9:])
        await asyncio.sleep(IDLE_SECONDS - 1)
        assert application.taken == number
        assert not wire.is_lost
    await asyncio.sleep(2)
    assert wire.is_lost


@pytest.mark.parametrize("size", [1, LARGE])
async def test_a_client_that_takes_nothing_loses_its_connection(size: int) -> None:
    application = Answering(size)
    wire = connected(application, takes=False)
    wire.protocol.data_received(GET)
    await asyncio.sleep(TAKE_SECONDS - 1)
    assert (application.begun, application.taken) == (1, int(size == 1))
    assert wire.left
    await asyncio.sleep(IDLE_SECONDS + 3)
    assert wire.is_lost
    assert application.taken == 1, "the application is not held"


async def test_a_client_that_takes_its_answer_in_time_keeps_its_connection() -> None:
    application = Answering(LARGE)
    wire = connected(application, takes=False)
    for number in range(1, 3):
        wire.protocol.data_received(GET)
        await asyncio.sleep(TAKE_SECONDS - 1)
        assert application.taken == number - 1
        wire.take()
        await asyncio.sleep(2)
        assert application.taken == number
    assert not wire.is_lost


async def test_a_client_that_takes_nothing_cannot_hold_a_connection_that_ends() -> None:
    application = Answering(1)
    wire = connected(application, takes=False)
    wire.protocol.data_received(GET[:-2] + b"Connection: close\r\n\r\n")
    await asyncio.sleep(1)
    assert wire.is_closing()
    assert not wire.is_lost
    await asyncio.sleep(TAKE_SECONDS)
    assert wire.is_lost


@pytest.mark.parametrize("length", [b"Content-Length: 4\r\n", b"content-length: 0\r\n"])
async def test_a_body_with_two_lengths_is_refused(length: bytes) -> None:
    """A proxy that believes the other one takes the rest for the next request."""
    application = Answering(1)
    wire = connected(application)
    wire.protocol.data_received(POST + length + b"\r\n0\r\n\r\n" + GET)
    await asyncio.sleep(1)
    assert application.begun == 0
    assert wire.written.startswith(b"HTTP/1.1 400 ")
    assert wire.written.count(b"HTTP/1.1") == 1
    assert wire.is_lost


async def test_a_body_that_breaks_after_its_answer_only_ends_the_connection() -> None:
    application = Answering(1)
    wire = connected(application)
    wire.protocol.data_received(POST + b"\r\n")
    await asyncio.sleep(1)
    assert application.taken == 1
    wire.protocol.data_received(b"no size of a chunk\r\n")
    await asyncio.sleep(1)
    assert wire.written.count(b"HTTP/1.1") == 1
    assert wire.is_lost


def talking(
    application: Answering, table: ConnectionTable, request: bytes = GET, *, takes: bool = True
) -> Wire:
    wire = connected(application, takes=takes, table=table)
    wire.protocol.data_received(request)
    return wire


async def settled() -> None:
    """Let requests be answered, and ended connections end."""
    await asyncio.sleep(1)


def lost(wires: list[Wire]) -> list[bool]:
    return [each.is_lost for each in wires]


async def test_connections_are_bounded_and_silent_ones_make_space() -> None:
    application = Answering(1)
    table = ConnectionPlaces[TimedProtocol](8)
    first = talking(application, table, WAIT)
    await settled()
    silent = [connected(application, table=table) for _ in range(3)]
    await settled()
    assert lost([first, *silent]) == [False, True, False, False]
    for each in silent[1:]:
        each.protocol.data_received(WAIT)
        await settled()
    more = []
    for _ in range(5):
        more.append(talking(application, table, WAIT))
        await settled()
    held = [first, *silent[1:], *more]
    assert not any(lost(held))
    full = connected(application, table=table)
    await settled()
    assert full.is_lost
    first.abort()
    await settled()
    assert not connected(application, table=table).is_lost
    application.may_answer.set()
    await settled()
    assert all(each.written for each in held[1:])
    assert not any(lost(held[1:])), "requests under way are not broken off"


async def test_refused_requests_keep_no_place() -> None:
    """A stranger could hold all places with one refused request each."""
    application = Answering(1)
    table = ConnectionPlaces[TimedProtocol](8)
    refused = []
    for _ in range(8):
        refused.append(talking(application, table, REFUSED))
        await settled()
    assert lost(refused) == [True] * 6 + [False] * 2
    assert application.taken == 8, "each has its answer"
    known = talking(application, table)
    await settled()
    silent = connected(application, table=table)
    await settled()
    refused[-1].protocol.data_received(REFUSED)
    await settled()
    talking(application, table)
    await settled()
    assert lost([known, refused[-1], silent]) == [False, False, True], "the longest silent one goes"


async def test_a_full_table_ends_the_connection_that_has_rested_longest() -> None:
    application = Answering(1)
    table = ConnectionPlaces[TimedProtocol](4)
    wires = []
    for request in (GET, WAIT, GET, GET):
        wires.append(talking(application, table, request))
        await settled()
    wires[0].protocol.data_received(GET)
    await settled()
    wires[2].protocol.data_received(GET[:9])  # the next request has begun
    wires.append(talking(application, table))
    await settled()
    assert lost(wires) == [False, False, False, True, False]
    wires[2].protocol.data_received(GET[9:])
    await settled()
    wires += [talking(application, table)]
    await settled()
    assert lost(wires) == [True, False, False, True, False, False]
    application.may_answer.set()
    await settled()
    assert wires[1].written.endswith(b"0\r\n\r\n")


async def test_an_answer_that_was_taken_to_its_end_is_at_rest() -> None:
    """The end of a large answer is taken without an event: the buffer is small already."""
    table = ConnectionPlaces[TimedProtocol](1)
    wire = talking(Answering(1000), table, takes=False)
    await settled()
    newcomer = connected(Answering(1), table=table)
    await settled()
    assert lost([wire, newcomer]) == [False, True], "the client has not taken the answer"
    wire.left = b""
    await settled()
    newcomer = connected(Answering(1), table=table)
    await settled()
    assert lost([wire, newcomer]) == [True, False]


@pytest.mark.parametrize(
    ("size", "asked"),
    [(1, b"POST /refused HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"), (LARGE, REFUSED)],
)
async def test_a_stranger_holds_no_place_by_waiting(size: int, asked: bytes) -> None:
    """It sends no body, or takes no answer."""
    application = Slow(size)
    table = ConnectionPlaces[TimedProtocol](4)
    stranger = talking(application, table, asked, takes=False)
    await settled()
    assert (stranger.is_lost, application.taken) == (False, 0)
    talking(application, table)
    await settled()
    assert stranger.is_lost


@asynccontextmanager
async def served_with_tls(
    place: Path, table: ConnectionTable, size: int = 1
) -> AsyncIterator[tuple[str, int, ssl.SSLContext]]:
    """Serve with TLS in the block; yields where, and what its clients trust."""
    issuer = authority()
    certificate, key = issuer.issue("server", None, ["127.0.0.1"], DAY).write(place, "server")
    trusted = ssl.create_default_context(cadata=issuer.pair.certificate.decode())
    listening, ready = bind("127.0.0.1:0"), asyncio.Event()
    where = listening.getsockname()

    async def end() -> None:
        """Nothing is under way."""

    serving = asyncio.create_task(
        serve_application(
            *(Answering(size), listening),
            ready=ready.set,
            ending=end,
            table=table,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
    )
    try:
        await ready.wait()
        yield (*where, trusted)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.real_time
async def test_a_connection_without_a_handshake_has_a_place(tmp_path: Path) -> None:
    table = ConnectionPlaces[TimedProtocol](8)
    async with served_with_tls(tmp_path, table) as (host, port, trusted), AsyncExitStack() as stack:
        silent = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection(host, port)
            stack.callback(writer.close)
            silent.append(reader)
        assert await silent[0].read() == b"", "two of eight may be silent"
        reader, writer = await asyncio.open_connection(host, port, ssl=trusted)
        stack.callback(writer.close)
        assert await silent[1].read() == b""
        writer.write(GET)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    assert await silent[2].read() == b"", "a handshake does not outlive the server"


@pytest.mark.real_time
async def test_a_connection_that_loses_its_place_as_its_handshake_ends_is_cut(
    tmp_path: Path,
) -> None:
    """Its client takes no part in the end of TLS."""
    table, loop = ConnectionPlaces[TimedProtocol](8), asyncio.get_running_loop()
    async with served_with_tls(tmp_path, table) as (host, port, trusted):
        with socket.create_connection((host, port)) as theirs:
            theirs.setblocking(False)
            await shake_hands(theirs, trusted, host)
            (connection,) = table._open
            loop.call_soon(connection.end)  # the loop sees the client's bytes after that
            with suppress(ConnectionResetError):
                async with asyncio.timeout(HANDSHAKE_SECONDS / 4):
                    while await loop.sock_recv(theirs, 65_536):
                        pass


@pytest.mark.real_time
async def test_an_answer_below_tls_is_not_broken_off(tmp_path: Path) -> None:
    """TLS has taken all of the answer, and the client has not."""
    table = ConnectionPlaces[TimedProtocol](1)
    size = 20_000_000
    async with served_with_tls(tmp_path, table, size) as (host, port, trusted):
        reader, writer = await asyncio.open_connection(host, port, ssl=trusted, limit=1)
        writer.write(GET)
        assert await reader.read(9) == b"HTTP/1.1 "
        await asyncio.to_thread(_refused, host, port)
        body = 0
        while part := await reader.read(65536):
            body += len(part)
            if body > size:
                break
        assert body > size, "the answer came whole"
        writer.close()


def _refused(host: str, port: int) -> None:
    with socket.create_connection((host, port)) as newcomer:
        assert newcomer.recv(1) == b""


@pytest.mark.real_time
async def test_a_handshake_has_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quire.http_server.HANDSHAKE_SECONDS", 0.05)
    table = ConnectionPlaces[TimedProtocol](1)
    async with served_with_tls(tmp_path, table) as (host, port, _):
        reader, writer = await asyncio.open_connection(host, port)
        assert await reader.read() == b""
        writer.close()


def test_small_parts_of_an_answer_are_sent_at_once() -> None:
    """asyncio switches Nagle's algorithm off only for sockets that name their protocol."""
    with bind("127.0.0.1:0") as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

"""Messages over plain TCP: cut anywhere, too large, too many, for others; and who is gone."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.bookie import BookieAddress
from quire.errors import BookieBusyError, BookieUnavailableError
from quire.ledger.remote import RemoteBookie
from quire.storage.serving import connection_port
from quire.storage.serving.grpc_service import serve_bookie
from quire.storage.serving.limits import Reception, ServiceLimits
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire import framed
from quire.wire.framed import (
    GREETING,
    MESSAGES_MAX,
    Budgets,
    ConnectionOverError,
    FramedConnection,
    connect,
)
from quire.wire.inbox import MESSAGE_COST
from quire.wire.transport import MESSAGE_BYTES_MAX
from tests.wire.link import KEY, SOON, GatedBookie, run_of

HERE = "127.0.0.1:0"


def frame(message: bytes) -> bytes:
    return struct.pack(">I", len(message)) + message


class Wire(asyncio.Transport):
    """The transport of a connection under test: says what is asked of it."""

    def __init__(self) -> None:
        super().__init__({"socket": self})
        self.written: list[bytes] = []
        self.is_paused = self.is_closed = False

    def setsockopt(self, *_: object) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


def server_end() -> tuple[FramedConnection, Wire]:
    connection, wire = FramedConnection(on_greeted=lambda _: None), Wire()
    connection.connection_made(wire)
    return connection, wire


@given(st.lists(st.binary(max_size=300), max_size=8), st.data())
def test_messages_arrive_whole_however_they_are_cut(
    messages: list[bytes], data: st.DataObject
) -> None:
    async def main() -> None:
        connection, _ = server_end()
        sent = GREETING + b"".join(map(frame, messages))
        cuts = sorted(data.draw(st.sets(st.integers(0, len(sent)), max_size=12)))
        for low, high in itertools.pairwise([0, *cuts, len(sent)]):
            connection.data_received(sent[low:high])
        connection.connection_lost(None)
        for message in messages:
            assert await connection.read() == message
        assert await connection.read() is None

    asyncio.run(main())


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "another protocol"),
        (GREETING + struct.pack(">I", MESSAGE_BYTES_MAX + 1), f"{MESSAGE_BYTES_MAX + 1} bytes"),
    ],
)
def test_what_cannot_be_a_message_ends_the_connection(sent: bytes, reason: str) -> None:
    async def main() -> None:
        connection, wire = server_end()
        connection.data_received(sent)
        connection.data_received(frame(b"more"))
        assert wire.is_closed
        with pytest.raises(ConnectionOverError, match=reason):
            await connection.read()
        with pytest.raises(ConnectionOverError, match=reason):
            await connection.write(b"")

    asyncio.run(main())


def test_a_server_takes_few_small_messages_apart_before_they_are_read() -> None:
    async def main() -> None:
        reception = Reception(MemoryBookie("b1"), "b1")
        budgets = Budgets(
            *(reception.unfinished, reception.unread, reception.received, reception.large)
        )
        connection, wire = FramedConnection(on_greeted=lambda _: None, budgets=budgets), Wire()
        connection.connection_made(wire)
        messages = [b"%d" % each for each in range(10 * MESSAGES_MAX)]
        connection.data_received(GREETING + b"".join(map(frame, messages)) + frame(b"cut")[:-1])
        apart = reception.received.size - reception.received.free
        assert apart <= MESSAGES_MAX * (MESSAGE_COST + 4)
        states = [wire.is_paused]
        assert reception.unfinished.total, "what was not taken apart has space, too"
        for message in messages:
            assert await connection.read() == message
        states.append(wire.is_paused)
        assert states == [True, False]
        connection.data_received(b"t")
        assert await connection.read() == b"cut"
        connection.connection_lost(None)
        assert (reception.unfinished.total, reception.received.free) == (
            0,
            reception.received.size,
        )

    asyncio.run(main())


def test_a_server_may_take_all_messages_apart() -> None:
    async def main() -> None:
        reception = Reception(MemoryBookie("b1"), "b1")
        budgets = Budgets(
            *(reception.unfinished, reception.unread, reception.received, reception.large)
        )
        connection, wire = FramedConnection(on_greeted=lambda _: None, budgets=budgets), Wire()
        connection.connection_made(wire)
        messages = [b"x"] * 10 * MESSAGES_MAX
        connection.data_received(GREETING + b"".join(map(frame, messages)))
        connection.take_all()
        assert not wire.is_paused
        assert reception.unfinished.total == 0
        connection.data_received(b"".join(map(frame, messages)))
        assert reception.unfinished.total == 0
        for _ in range(2):
            for message in messages:
                assert await connection.read() == message

    asyncio.run(main())


def test_a_message_that_was_whole_is_read_although_the_connection_broke_then() -> None:
    async def main() -> None:
        connection, _ = server_end()
        connection.data_received(GREETING + frame(b"whole") + frame(b"cut")[:-1])
        connection.connection_lost(ConnectionResetError(104, "Connection reset by peer"))
        assert await connection.read() == b"whole"
        with pytest.raises(ConnectionOverError, match="Connection reset by peer"):
            await connection.read()

    asyncio.run(main())


def test_a_reader_that_is_behind_makes_the_other_side_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(framed, "RECEIVED_BYTES_MAX", 100)

    async def main() -> None:
        connection, wire = server_end()
        connection.data_received(GREETING + frame(bytes(60)) + frame(bytes(60)))
        states = []
        for _ in range(2):
            await connection.read()
            states.append(wire.is_paused)
        assert states == [True, False]

    asyncio.run(main())


def test_messages_without_bytes_are_counted_too() -> None:
    async def main() -> None:
        connection, wire = server_end()
        connection.data_received(GREETING + frame(b"") * (MESSAGE_BYTES_MAX // 128 + 1))
        assert wire.is_paused
        assert await connection.read() == b""

    asyncio.run(main())


def test_whoever_says_nothing_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framed, "GREETING_SECONDS", 0.01)

    async def main() -> None:
        async with serve_bookie(MemoryBookie("b1"), "b1", listen_runs=HERE) as address:
            assert address.runs is not None
            friend, stub = await connect(address.runs), RemoteBookie(address)
            host, port = address.runs.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(GREETING[:-1])
            async with asyncio.timeout(SOON):
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
                await friend.write(request(0))  # who has greeted may be silent for ever
                assert await friend.read() is not None
            writer.close()
            friend.abort()
            await stub.close()

    asyncio.run(main())


def test_a_server_that_stops_closes_those_who_have_not_spoken_yet() -> None:
    async def main() -> None:
        async with serve_bookie(MemoryBookie("b1"), "b1", listen_runs=HERE) as address:
            assert address.runs is not None
            host, port = address.runs.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            stub = RemoteBookie(address)
            await stub.add(7, KEY, run_of(0))  # accepted after the others
            await stub.close()
        async with asyncio.timeout(SOON):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()

    asyncio.run(main())


def test_a_writer_waits_for_room_and_hears_when_there_will_be_none() -> None:
    async def main() -> None:
        connection, wire = server_end()
        connection.pause_writing()
        first = asyncio.ensure_future(connection.write(b"first"))
        await asyncio.sleep(0)
        assert not wire.written
        connection.resume_writing()
        await first
        assert b"".join(wire.written) == frame(b"first")
        connection.pause_writing()
        second = asyncio.ensure_future(connection.write(b"second"))
        await asyncio.sleep(0)
        connection.connection_lost(None)
        with pytest.raises(ConnectionOverError):
            await second

    asyncio.run(main())


def test_nobody_at_an_address_is_said_in_words() -> None:
    async def main() -> None:
        async with serve_bookie(MemoryBookie("b1"), "b1", listen_runs=HERE) as address:
            assert address.runs is not None
        with pytest.raises(ConnectionOverError, match=f"^{address.runs}: Connection refused$"):
            await connect(address.runs)


@pytest.mark.parametrize("runs", ["nonsense", "127.0.0.1:x", "127.0.0.1:70000", "a..b:1"])
def test_what_is_no_address_is_an_unavailable_bookie(runs: str) -> None:
    async def main() -> None:
        stub = RemoteBookie(BookieAddress("b1", "127.0.0.1:1", runs=runs))
        with pytest.raises(BookieUnavailableError, match=runs):
            await stub.add(7, KEY, run_of(0))
        await stub.close()

    asyncio.run(main())


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_every_event_loop_carries_runs_of_any_size(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        async with serve_bookie(MemoryBookie("b1"), "b1", listen_runs=HERE) as address:
            stub = RemoteBookie(address)
            sizes = (1, 70_000, 1_000_000)
            await asyncio.gather(
                *(stub.add(7, KEY, run_of(entry, size)) for entry, size in enumerate(sizes))
            )
            assert await stub.list_entries(7) == [(0, 2)]
            await stub.close()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())


@asynccontextmanager
async def raw(
    bookie: MemoryBookie, limits: ServiceLimits | None = None
) -> AsyncIterator[tuple[FramedConnection, RemoteBookie]]:
    async with serve_bookie(bookie, "b1", listen_runs=HERE, limits=limits) as address:
        assert address.runs is not None
        connection, stub = await connect(address.runs), RemoteBookie(address)
        try:
            async with asyncio.timeout(SOON):
                yield connection, stub
        finally:
            connection.abort()
            await stub.close()


def request(*entries: int) -> bytes:
    runs = [pb.AddRun(ledger=7, key=KEY, run=run_of(entry)) for entry in entries]
    return pb.AddRequest(bookie="b1", first=1, runs=runs).SerializeToString()


def test_a_message_that_says_nothing_is_refused() -> None:
    async def main() -> None:
        async with raw(MemoryBookie("b1")) as (connection, stub):
            await connection.write(b"\xff\xff")
            answer = await connection.read()
            assert answer is not None
            reply = pb.AddReply.FromString(answer)
            assert reply.refusal.status == pb.INVALID_REQUEST
            assert await connection.read() is None
            await stub.add(7, KEY, run_of(0))

    asyncio.run(main())


def test_a_client_that_is_gone_is_not_waited_for() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with raw(bookie) as (connection, _):
            await connection.write(request(0))
            await bookie.arrived(1)
            connection.abort()
            await bookie.left()

    asyncio.run(main())


def test_streams_are_bounded() -> None:
    async def main() -> None:
        async with raw(MemoryBookie("b1"), ServiceLimits(streams=1)) as (connection, stub):
            await connection.write(request(0))
            assert await connection.read() is not None
            with pytest.raises(BookieBusyError, match=r"1 connections of 127\.0\.0\.1 are open"):
                await stub.add(7, KEY, run_of(1))
            assert await stub.list_entries(7) == [(0, 0)]
            connection.abort()
            while True:
                with contextlib.suppress(BookieBusyError):
                    await stub.add(7, KEY, run_of(1))
                    break

    asyncio.run(main())


def test_whoever_is_silent_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many say nothing, they are so many, and nobody who speaks is turned away."""
    monkeypatch.setattr(connection_port, "SILENT_MAX", 2)

    async def main() -> None:
        bookie, limits = MemoryBookie("b1"), ServiceLimits(streams=1)
        async with serve_bookie(bookie, "b1", listen_runs=HERE, limits=limits) as address:
            assert address.runs is not None
            host, port = address.runs.split(":")
            silent = [await asyncio.open_connection(host, int(port)) for _ in range(5)]
            stub = RemoteBookie(address)
            await stub.add(7, KEY, run_of(0))
            async with asyncio.timeout(SOON):
                for reader, _ in silent[:3]:
                    with contextlib.suppress(ConnectionError):
                        assert await reader.read() == b""
            assert not silent[4][0].at_eof()
            for _, writer in silent:
                writer.close()
            await stub.close()

    asyncio.run(main())


def test_a_connection_that_is_ended_before_it_is_made_ends_when_it_is() -> None:
    async def main() -> None:
        for end in (FramedConnection.close, FramedConnection.abort):
            connection = FramedConnection(on_greeted=lambda _: None)
            end(connection)
            wire = Wire()
            connection.connection_made(wire)
            assert wire.is_closing()
            with pytest.raises(ConnectionOverError):
                await connection.read()

    asyncio.run(main())


@settings(max_examples=50)
@given(st.binary(max_size=64), st.booleans(), st.integers(0, 2**32 - 1))
def test_no_bytes_harm_a_bookie(noise: bytes, is_greeted: bool, size: int) -> None:
    async def main() -> None:
        bookie = MemoryBookie("b1")
        async with serve_bookie(bookie, "b1", listen_runs=HERE, drain_seconds=0.0) as address:
            assert address.runs is not None
            host, port = address.runs.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write((GREETING if is_greeted else b"") + struct.pack(">I", size) + noise)
            with contextlib.suppress(ConnectionError):
                writer.write_eof()
                async with asyncio.timeout(SOON):
                    await reader.read()
            writer.close()
            assert not bookie.ledgers
            stub = RemoteBookie(address)
            await stub.add(7, KEY, run_of(0))
            await stub.close()

    asyncio.run(main())

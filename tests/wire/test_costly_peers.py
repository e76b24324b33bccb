"""Peers that cost a bookie memory, connections or time; other clients are served on."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from quire.bookie import BookieAddress
from quire.ledger.remote import RemoteBookie
from quire.run import pack_run
from quire.storage.serving.grpc_service import BookieService, serve_bookie
from quire.storage.serving.held_bytes import STALLED_SECONDS
from quire.storage.serving.large_messages import LARGE_PLACES
from quire.storage.serving.limits import (
    GRACE_SECONDS,
    Reception,
    ServiceLimits,
)
from quire.storage.serving.refusals import Refusals
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire import transport
from quire.wire.codec import decode_failure
from quire.wire.descriptors import CONNECTIONS_MIN, DESCRIPTORS_RESERVED, connections_max
from quire.wire.framed import GREETING, Budgets, FramedConnection
from quire.wire.transport import ServerContext
from tests.support.virtual import virtually
from tests.wire.link import KEY, SEALER, SOON, run_of
from tests.wire.test_framed import Wire, frame

HERE = "127.0.0.1:0"


@asynccontextmanager
async def served(
    limits: ServiceLimits,
) -> AsyncIterator[tuple[BookieAddress, RemoteBookie, Refusals]]:
    refusals = Refusals()
    serving = serve_bookie(
        *(MemoryBookie("b1"), "b1"), listen_runs=HERE, limits=limits, refusals=refusals
    )
    async with asyncio.timeout(SOON), serving as address:
        stub = RemoteBookie(address)
        try:
            yield address, stub, refusals
        finally:
            await stub.close()


def budgets_of(reception: Reception) -> Budgets:
    return Budgets(reception.unfinished, reception.unread, reception.received, reception.large)


async def open_to(address: str | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    assert address is not None
    host, port = address.split(":")
    return await asyncio.open_connection(host, int(port))


async def is_ended(reader: asyncio.StreamReader) -> bool:
    try:
        while await reader.read(1000):  # a gRPC server speaks first
            pass
    except ConnectionError:
        pass
    return True


def test_unfinished_messages_share_one_budget() -> None:
    async def main() -> None:
        async with served(ServiceLimits(unfinished_bytes=100_000)) as (address, stub, refusals):
            strangers = []
            for _ in range(6):  # 240 kB of messages that never end
                reader, writer = await open_to(address.runs)
                writer.write(GREETING + struct.pack(">I", 2**20) + bytes(40_000))
                await writer.drain()
                strangers.append((reader, writer))
            for reader, _ in strangers[:4]:
                assert await is_ended(reader)
            assert refusals.counts["unfinished"] == 4
            await stub.add(7, KEY, run_of(0, 70_000))
            assert await stub.list_entries(7) == [(0, 0)]
            for _, writer in strangers:
                writer.close()

    asyncio.run(main())


def test_a_message_must_end_in_time_whatever_trickles_in() -> None:
    async def main() -> None:
        reception = Reception(MemoryBookie("b1"), "b1")
        connection = FramedConnection(on_greeted=lambda _: None, budgets=budgets_of(reception))
        wire = Wire()
        connection.connection_made(wire)
        connection.data_received(GREETING + frame(b"whole") * 2 + struct.pack(">I", 1000))
        for _ in range(int(STALLED_SECONDS)):
            assert not wire.is_closed
            await asyncio.sleep(1.0)
            connection.data_received(b"x")
        await asyncio.sleep(0.1)
        assert wire.is_closed
        assert reception.unfinished.total == 0

    virtually(main)


def test_a_busy_connection_is_not_taken_for_one_that_stalls() -> None:
    async def main() -> None:
        reception = Reception(MemoryBookie("b1"), "b1")
        connection = FramedConnection(on_greeted=lambda _: None, budgets=budgets_of(reception))
        wire = Wire()
        connection.connection_made(wire)
        sent = frame(bytes(100))
        connection.data_received(GREETING + sent[:50])
        for _ in range(100):  # every part ends one message, and begins the next one
            await asyncio.sleep(1.0)
            connection.data_received(sent[50:] + sent[:50])
            await connection.read()
        assert not wire.is_closed
        connection.connection_lost(None)
        assert reception.unfinished.total == 0

    virtually(main)


def test_a_client_that_takes_no_answers_of_runs_is_dropped() -> None:
    async def main() -> None:
        reception = Reception(MemoryBookie("b1"), "b1")
        budgets = budgets_of(reception)
        connection, wire = FramedConnection(on_greeted=lambda _: None, budgets=budgets), Wire()
        connection.connection_made(wire)
        connection.data_received(GREETING)
        connection.pause_writing()
        await asyncio.sleep(STALLED_SECONDS - 1)
        connection.resume_writing()
        connection.pause_writing()
        states = []
        for seconds in (STALLED_SECONDS - 1, 2):
            await asyncio.sleep(seconds)
            states.append(wire.is_closed)
        assert states == [False, True]
        assert reception.refusals.counts == {"unread": 1}

    virtually(main)


def test_the_first_message_has_a_deadline() -> None:
    async def main() -> None:
        limits = ServiceLimits(first_message_seconds=0.05)
        async with served(limits) as (address, stub, _):
            await stub.add(7, KEY, run_of(0))
            reader, writer = await open_to(address.runs)
            writer.write(GREETING)
            assert await is_ended(reader)
            await stub.add(7, KEY, run_of(1))  # later a client may be silent
            writer.close()

    asyncio.run(main())


class Reader:
    """A client's end of a read that takes some parts and then no more."""

    def __init__(self, takes: int = 0, host: int = 1) -> None:
        self.host = host
        self.parts: list[bytes] = []
        self.aborted: object = None
        self._takes = takes

    def add_done_callback(self, callback: Callable[[object], None]) -> None: ...

    def peer(self) -> str:
        return f"ipv4:192.0.2.{self.host}:1"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    async def write(self, part: bytes) -> None:
        if len(self.parts) >= self._takes:
            await asyncio.Event().wait()
        self.parts.append(part)

    async def abort(self, code: object, details: str) -> None:
        self.aborted = code


SIZE = 100_000


async def reading(limits: ServiceLimits) -> tuple[Reception, Callable[[Reader], Any]]:
    bookie = MemoryBookie("b1")
    await bookie.add(7, KEY, pack_run([SEALER.seal(0, -1, 2**40, b"x" * SIZE)]))
    reception = Reception(bookie, "b1", limits)
    service = BookieService(reception)
    request = pb.ReadRequest(bookie="b1", ledger=7, first=0, last=0, bytes_max=2**20)

    def read(reader: Reader) -> asyncio.Task[None]:
        return asyncio.create_task(service.Read(request, cast("ServerContext", reader)))

    return reception, read


def test_an_answer_that_is_not_taken_is_dropped_after_some_time() -> None:
    async def main() -> None:
        reception, read = await reading(ServiceLimits())
        reader = Reader()
        task = read(reader)
        await asyncio.sleep(STALLED_SECONDS - 1)
        assert not task.done()
        assert reception.unread.total > SIZE
        await task
        assert reader.aborted is transport.RESOURCE_EXHAUSTED
        assert reception.unread.total == 0
        assert reception.refusals.counts == {"unread": 1}

    virtually(main)


def test_answers_that_are_not_taken_make_room_for_others() -> None:
    async def main() -> None:
        reception, read = await reading(ServiceLimits(unread_bytes=11 * SIZE, reads=1))
        stalled = [Reader() for _ in range(3)]
        tasks = [read(each) for each in stalled]
        await asyncio.sleep(GRACE_SECONDS / 2)
        early = Reader(takes=1)
        await read(early)  # those before it may still be taking their answers
        with pytest.raises(Exception, match="not taken"):
            raise decode_failure(pb.ReadReply.FromString(early.parts[0]).failure)
        await asyncio.sleep(GRACE_SECONDS)
        for _ in range(5):
            friend = Reader(takes=1)
            await read(friend)
            assert len(friend.parts[0]) > SIZE
        assert [each.aborted is not None for each in stalled] == [True, False, False]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert reception.unread.total == 0

    virtually(main)


@pytest.mark.parametrize("kind", ["grpc", "runs"])
def test_connections_are_counted(kind: str) -> None:
    async def main() -> None:
        async with served(ServiceLimits(connections=8)) as (address, stub, refusals):
            await stub.add(7, KEY, run_of(0))
            where = address.address if kind == "grpc" else address.runs
            held = [await open_to(where) for _ in range(12)]
            ended = [asyncio.ensure_future(is_ended(reader)) for reader, _ in held]
            async with asyncio.timeout(SOON / 2):  # long before silence alone ends them
                await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
            await stub.add(7, KEY, run_of(1))
            if kind == "runs":
                assert refusals.counts["silent"] > 0
            for _, writer in held:
                writer.close()
            await asyncio.gather(*ended)

    asyncio.run(main())


def test_a_client_that_does_not_speak_http2_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = (*transport.SERVER_OPTIONS, ("grpc.server_handshake_timeout_ms", 50))
    names = [name for name, _ in transport.SERVER_OPTIONS]
    assert "grpc.server_handshake_timeout_ms" in names
    monkeypatch.setattr(transport, "SERVER_OPTIONS", tuple(dict(quick).items()))

    async def main() -> None:
        async with served(ServiceLimits()) as (address, stub, _):
            reader, writer = await open_to(address.address)
            assert await is_ended(reader)
            writer.close()
            assert (await stub.info()).ledgers == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("descriptors", "connections"),
    [
        (65_536, 8192),
        (1024, (1024 - DESCRIPTORS_RESERVED) // 2),
        (200, CONNECTIONS_MIN),
        (0, CONNECTIONS_MIN),
    ],
)
def test_descriptors_are_left_for_files(descriptors: int, connections: int) -> None:
    assert connections_max(8192, descriptors) == connections


def test_a_few_large_messages_of_a_peer_come_in_at_a_time() -> None:
    async def main() -> None:
        reception = Reception(MemoryBookie("b1"), "b1")
        budgets, size = budgets_of(reception), 8 * 1024 * 1024
        begun = struct.pack(">I", size) + bytes(100_000)

        def connect(host: str, said: bytes) -> tuple[FramedConnection, Wire]:
            connection, wire = FramedConnection(on_greeted=lambda _: None, budgets=budgets), Wire()
            wire._extra["peername"] = (host, 1)  # type: ignore[attr-defined]
            connection.connection_made(wire)
            connection.data_received(GREETING + said)
            return connection, wire

        stranger = [connect("10.0.0.1", begun) for _ in range(LARGE_PLACES + 3)]
        assert [wire.is_paused for _, wire in stranger] == [False] * LARGE_PLACES + [True] * 3
        honest, its_wire = connect("10.0.0.2", begun)
        small, small_wire = connect("10.0.0.1", frame(bytes(2**20))[:1000])
        assert not its_wire.is_paused
        assert not small_wire.is_paused
        small.data_received(frame(bytes(2**20))[1000:])
        assert await small.read() == bytes(2**20)

        stranger[0][0].data_received(bytes(size - 100_000))  # it is whole: the next goes on
        paused = [wire.is_paused for _, wire in stranger[LARGE_PLACES:]]
        assert paused == [False, True, True]
        stranger[LARGE_PLACES + 1][0].connection_lost(None)  # it waited, and waits no more
        stranger[1][0].connection_lost(None)
        assert not stranger[-1][1].is_paused
        late, late_wire = connect("10.0.0.1", begun)
        seen = [late_wire.is_paused]
        late.data_received(bytes(size - 100_000))  # was on its way
        assert await late.read() == bytes(size)
        assert [*seen, late_wire.is_paused] == [True, False]
        for connection, _ in (*stranger, (honest, its_wire), (small, small_wire), (late, None)):
            connection.connection_lost(None)
        kept = [connection._size for connection, _ in stranger]
        assert kept == [0] * len(stranger), "bytes of a connection that is gone"
        assert reception.large._peers == {}
        assert reception.large._owners == {}
        assert reception.unfinished.total == 0

    virtually(main)


def test_a_peer_that_stalls_its_large_messages_loses_their_connections() -> None:
    async def main() -> None:
        reception = Reception(MemoryBookie("b1"), "b1")
        begun = GREETING + struct.pack(">I", 8 * 1024 * 1024) + b"x"
        made = []
        for each in range(LARGE_PLACES + 1):
            connection = FramedConnection(on_greeted=lambda _: None, budgets=budgets_of(reception))
            wire = Wire()
            connection.connection_made(wire)
            connection.data_received(begun)
            made.append((connection, wire))
            if each < LARGE_PLACES:
                continue
            assert wire.is_paused
        await asyncio.sleep(STALLED_SECONDS + 1)
        assert all(wire.is_closed for _, wire in made)

    virtually(main)

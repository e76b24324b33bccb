"""Answers of reads: gathered in turns, and handed over to clients that take them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc
import pytest

from quire.ledger.remote import RemoteBookie
from quire.run import pack_run
from quire.storage.serving import limits as service_limits
from quire.storage.serving.grpc_service import serve_bookie
from quire.storage.serving.handing_over import Gathering
from quire.storage.serving.limits import ServiceLimits
from quire.storage.serving.refusals import Refusals
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire import bookie_pb2_grpc as rpc
from tests.wire.link import KEY, SEALER, SOON

SIZE = 900_000


class Reads:
    """Reads that gather when they are told to, and note their order."""

    def __init__(self, bytes_max: int) -> None:
        self.gathering = Gathering(bytes_max)
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, size: int) -> None:
        async def work() -> None:
            async with self.gathering.turn(size):
                self.begun.append(name)
                await self._ends[name].wait()

        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(work())

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await asyncio.sleep(0.001)

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        with suppress(asyncio.CancelledError):
            await self._tasks[name]
        await asyncio.sleep(0.001)


async def test_reads_gather_so_many_bytes_and_then_wait_in_order() -> None:
    reads = Reads(100)
    for name, size in (("a", 60), ("b", 60), ("c", 10), ("d", 1000)):
        reads.start(name, size)
    await asyncio.sleep(0.001)
    assert reads.begun == ["a"], "c is smaller, and waits behind b all the same"
    await reads.end("a")
    assert reads.begun == ["a", "b", "c"]
    await reads.end("b")
    assert reads.begun == ["a", "b", "c"], "d needs all of it"
    await reads.end("c")
    await reads.end("d")
    assert reads.gathering.free == 100


async def test_a_read_that_is_cancelled_gives_its_turn_back() -> None:
    reads = Reads(100)
    for name in "abc":
        reads.start(name, 60)
    await asyncio.sleep(0.001)
    await reads.cancel("b")
    await reads.cancel("a")
    assert reads.begun == ["a", "c"]
    await reads.end("c")
    assert reads.gathering.free == 100


async def test_a_turn_that_comes_with_a_cancellation_is_not_lost() -> None:
    reads = Reads(100)
    reads.start("a", 100)
    reads.start("b", 100)
    await asyncio.sleep(0.001)
    reads._ends["a"].set()
    await reads._tasks["a"]  # b has its turn, and has not gone on yet
    await reads.cancel("b")
    assert reads.gathering.free == 100


@pytest.mark.real_time
async def test_a_client_that_takes_nothing_loses_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service_limits, "GRACE_SECONDS", 0.0)
    bookie, refusals = MemoryBookie("b1"), Refusals()
    for entry in range(4):
        await bookie.add(7, KEY, pack_run([SEALER.seal(entry, -1, 2**40, b"x" * SIZE)]))
    limits = ServiceLimits(unread_bytes=12 * SIZE)  # two answers with the copies of a part
    serving = serve_bookie(bookie, "b1", limits=limits, refusals=refusals)
    options = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.http2.lookahead_bytes", 65536),
        ("grpc.http2.bdp_probe", 0),  # the window stays small
    ]
    async with asyncio.timeout(SOON), serving as address:
        channel = grpc.aio.insecure_channel(address.address, options=options)
        request = pb.ReadRequest(bookie="b1", ledger=7, first=0, last=3, bytes_max=2**22)
        stalled = [rpc.BookieStub(channel).Read(request) for _ in range(4)]
        codes = await asyncio.gather(*(each.code() for each in stalled))
        assert grpc.StatusCode.UNAVAILABLE in codes, "the connection has ended"
        assert refusals.counts["unread"] >= 1
        friend = RemoteBookie(address)
        assert len(await friend.read(7, 0, 0)) > SIZE
        await friend.close()
        await channel.close(None)

"""Answers of reads: gathered in turns, and handed over to clients that take them."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from quire.ledger.remote import RemoteBookie
from quire.run import pack_run
from quire.storage.serving import limits as service_limits
from quire.storage.serving.grpc_service import serve_bookie
from quire.storage.serving.limits import ServiceLimits
from quire.storage.serving.refusals import Refusals
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire import bookie_pb2_grpc as rpc
from tests.wire.link import KEY, SEALER, SOON

SIZE = 900_000


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

"""The list of a ledger's entries goes over the wire in pieces, to whoever knows of them."""

from __future__ import annotations

import asyncio
from functools import partial

import grpc
import grpc.aio
import pytest

from quire.bookie import list_all
from quire.entry import ENTRY_MAX
from quire.storage.serving import grpc_service
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire import bookie_pb2_grpc as rpc
from quire.wire.transport import bind, open_server
from tests.wire.link import KEY, connected, far, run_of, served

APART = [(entry, entry) for entry in range(0, 20, 2)]


async def striped() -> MemoryBookie:
    bookie = MemoryBookie("b1")
    for entry, _ in APART:
        await bookie.add(7, KEY, run_of(entry))
    return bookie


def test_a_long_list_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_service, "RANGES_MAX", 3)

    async def main() -> None:
        async with connected(await striped()) as stub:
            assert await stub.list_entries(7) == APART[:3]
            assert await stub.list_entries(7, 5) == APART[3:6]
            assert await list_all(partial(stub.list_entries, 7)) == APART
            assert await stub.list_entries(7, ENTRY_MAX) == []

    asyncio.run(main())


def test_a_client_that_knows_of_no_pieces_is_told_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_service, "RANGES_MAX", 3)

    async def main() -> None:
        bookie = await striped()
        bookie.ranges_max = 4
        async with served(bookie) as address, grpc.aio.insecure_channel(address.address) as channel:
            request = pb.ListEntriesRequest(bookie="b1", ledger=7)
            reply = await rpc.BookieStub(channel).ListEntries(request)
            assert list(reply.bounds) == [bound for pair in APART for bound in pair]

    asyncio.run(main())


def test_a_bookie_that_knows_of_no_pieces_is_understood() -> None:
    """It tells all of it, wherever it was to begin."""
    everything = pb.ListEntriesReply(bounds=[0, 4, 9, 9]).SerializeToString()

    async def answer(_: bytes, __: object) -> bytes:
        return everything

    async def main() -> None:
        server = open_server()
        address = bind(server, "127.0.0.1:0")
        handlers = {"ListEntries": grpc.unary_unary_rpc_method_handler(answer)}
        grpc_service = grpc.method_handlers_generic_handler("quire.v1.Bookie", handlers)
        server.add_generic_rpc_handlers((grpc_service,))
        await server.start()
        stub = far(address)
        try:
            assert await stub.list_entries(7, 3) == [(3, 4), (9, 9)]
            assert await list_all(partial(stub.list_entries, 7)) == [(0, 4), (9, 9)]
        finally:
            await stub.close()
            await server.stop(None)

    asyncio.run(main())

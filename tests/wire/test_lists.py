"""The list of a ledger's entries goes over the wire in pieces, to whoever knows of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import grpc
import grpc.aio
import pytest

from quire.bookie import list_all
from quire.entry import ENTRY_MAX
from quire.errors import BookieUnavailableError
from quire.ledger.remote import RemoteBookie
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


@asynccontextmanager
async def answering(bounds: Sequence[int]) -> AsyncIterator[RemoteBookie]:
    """A link to a bookie that answers every question for a list alike."""
    everything = pb.ListEntriesReply(bounds=bounds).SerializeToString()

    async def answer(_: bytes, __: object) -> bytes:
        return everything

    server = open_server()
    address = bind(server, "127.0.0.1:0")
    handler = grpc.unary_unary_rpc_method_handler(answer)
    handlers = {"ListEntries": handler, "ListLedgers": handler}
    service = grpc.method_handlers_generic_handler("quire.v1.Bookie", handlers)
    server.add_generic_rpc_handlers((service,))
    await server.start()
    stub = far(address)
    try:
        yield stub
    finally:
        await stub.close()
        await server.stop(None)


def test_a_bookie_that_knows_of_no_pieces_is_understood() -> None:
    """It tells all of it, wherever it was to begin."""

    async def main() -> None:
        async with answering([0, 4, 9, 9]) as stub:
            assert await stub.list_entries(7, 3) == [(3, 4), (9, 9)]
            assert await list_all(partial(stub.list_entries, 7)) == [(0, 4), (9, 9)]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("bounds", "asked"),
    [([0, 4, 3, 9], 0), ([5, 3], 0), ([0, 4, 4, 9], 0)],
    ids=["out of order", "backwards", "overlapping"],
)
def test_a_list_that_does_not_ascend_is_no_answer(bounds: list[int], asked: int) -> None:
    async def main() -> None:
        async with answering(bounds) as stub:
            for call in (stub.list_entries(7, asked), stub.list_ledgers(asked)):
                with pytest.raises(BookieUnavailableError, match="do not ascend"):
                    await call

    asyncio.run(main())


def test_a_bookie_that_tells_its_ledgers_again_and_again_is_asked_no_more() -> None:
    """Its list would never come to an end, and take all memory."""

    async def main() -> None:
        async with answering([0, 4, 9, 9]) as stub:
            assert await stub.list_ledgers(3) == [(3, 4), (9, 9)]
            assert await list_all(stub.list_ledgers) == [(0, 4), (9, 9)]

    asyncio.run(main())

"""Messages over gRPC that never end: what a bookie gathers of them is bounded."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from benchmarks.http2 import Http2Calls, message_of, open_http2
from quire.bookie import BookieAddress
from quire.errors import BookieUnavailableError
from quire.ledger.remote import RemoteBookie
from quire.outline import OUTLINES_MAX
from quire.storage.serving.grpc_service import serve_bookie
from quire.storage.serving.limits import Reception, ServiceLimits
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire import transport
from quire.wire.grpc_calls import at_door
from quire.wire.transport import MESSAGE_BYTES_MAX, REQUEST_BYTES_MAX, WINDOW_BYTES_MAX, bind
from tests.storage.serving.test_shares import FRIEND, STRANGER, context
from tests.support.virtual import virtually
from tests.wire.link import KEY, SOON, run_of

HERE = "127.0.0.1:0"
READ, ADD = "/quire.v1.Bookie/Read", "/quire.v1.Bookie/Add"
PINGS = 5
"""A server that opens its window does so before it has answered so many pings."""

UNFINISHED = message_of(MESSAGE_BYTES_MAX) + bytes(MESSAGE_BYTES_MAX - 1024)


async def taken(calls: Http2Calls, call: int) -> int:
    """Return how much of a message that does not end a server takes, once it takes no more."""
    sending = asyncio.create_task(calls.send(call, UNFINISHED))
    before = -1
    while calls.sent[call] > before and not sending.done():
        before = calls.sent[call]
        for _ in range(PINGS):
            await calls.ping()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    return calls.sent[call]


@pytest.mark.parametrize("path", [READ, ADD])
def test_beside_a_port_for_frames_a_large_message_is_refused_by_its_size(path: str) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(SOON),
            serve_bookie(MemoryBookie("b1"), "b1", HERE, HERE) as address,
        ):
            calls, stub = await open_http2(address.address), RemoteBookie(address)
            try:
                call = calls.begin(path)
                assert await taken(calls, call) <= 2 * WINDOW_BYTES_MAX  # what was on its way
                await calls.end_of(call)
                await stub.add(7, KEY, run_of(0, 200_000))  # goes to the other port
                assert await stub.list_entries(7) == [(0, 0)]
            finally:
                await stub.close()
                await calls.close()

    asyncio.run(main())


def test_without_a_port_for_frames_large_runs_go_through_grpc() -> None:
    async def main() -> None:
        async with asyncio.timeout(SOON), serve_bookie(MemoryBookie("b1"), "b1", HERE) as address:
            stub = RemoteBookie(address)
            try:
                await stub.add(7, KEY, run_of(0, MESSAGE_BYTES_MAX // 2))
                assert await stub.list_entries(7) == [(0, 0)]
            finally:
                await stub.close()

    asyncio.run(main())


def test_streams_over_grpc_are_bounded_by_the_largest_message() -> None:
    async def main() -> None:
        limits = ServiceLimits(stream_bytes=4 * MESSAGE_BYTES_MAX)
        bookie = serve_bookie(MemoryBookie("b1"), "b1", HERE, limits=limits)
        async with asyncio.timeout(SOON), bookie as address:
            calls = await open_http2(address.address)
            streams = [calls.begin(ADD) for _ in range(3)]
            await calls.end_of(streams[2])
            assert calls.ended == {streams[2]}
            late = RemoteBookie(address)
            with pytest.raises(BookieUnavailableError, match=r"2 streams .* \(--listen-runs\)"):
                await late.add(7, KEY, run_of(0))
            await late.close()
            await calls.close()
            await appended(address)

    asyncio.run(main())


def test_the_largest_request_that_is_no_run_fits_beside_a_port_for_frames() -> None:
    ledgers = range(2**62, 2**62 + OUTLINES_MAX)
    request = pb.OutlinesRequest(bookie="f" * 32, ledgers=ledgers)
    assert len(request.SerializeToString()) <= REQUEST_BYTES_MAX


async def appended(address: BookieAddress) -> None:
    """Return when a run is taken: the server notices the end of a connection a moment later."""
    while True:
        stub = RemoteBookie(address)
        try:
            with suppress(BookieUnavailableError):
                return await stub.add(7, KEY, run_of(0))
        finally:
            await stub.close()


def test_first_messages_take_turns_by_peer() -> None:
    async def main() -> None:
        limits = ServiceLimits(unfinished_bytes=4 * MESSAGE_BYTES_MAX, first_message_seconds=10)
        reception = Reception(MemoryBookie("b1"), "b1", limits)

        async def answer(request: Any, _: object) -> object:
            return request

        serve = at_door(answer, reception, bytes.decode, MESSAGE_BYTES_MAX)

        def call(host: str, message: object = None) -> asyncio.Future[Any]:
            return asyncio.ensure_future(serve(None, context(host, message)))

        stalled = [call(STRANGER) for _ in range(2)]
        await asyncio.sleep(1)
        waiting = call(STRANGER, b"late")  # gRPC gathers nothing of it yet
        assert await call(FRIEND, b"hello") == "hello"
        await asyncio.sleep(8.5)
        assert not waiting.done()
        assert await waiting == "late", "the stalled ones had lost their places"
        await asyncio.gather(*stalled, return_exceptions=True)

    virtually(main)


@pytest.mark.parametrize("size", [REQUEST_BYTES_MAX, MESSAGE_BYTES_MAX])
def test_of_a_call_that_nothing_reads_a_server_holds_its_window(size: int) -> None:
    """Also on a fast network: gRPC would let the window grow there."""

    async def main() -> None:
        reads = asyncio.Event()

        class Silent:
            async def Read(self, *_: object) -> None:  # noqa: N802
                await reads.wait()

            def __getattr__(self, _: str) -> Any:
                return self.Read

        server = transport.open_server(message_bytes_max=size)
        reception = Reception(
            MemoryBookie("b1"), "b1", ServiceLimits(unfinished_bytes=1, peer_share=1)
        )
        transport.add_service(server, Silent(), reception, message_bytes_max=size)
        address = bind(server, HERE)
        await server.start()
        try:
            async with asyncio.timeout(SOON):
                calls = await open_http2(address)
                assert await taken(calls, calls.begin(ADD)) <= 2 * WINDOW_BYTES_MAX
                await calls.close()
        finally:
            reads.set()
            await server.stop(None)

    asyncio.run(main())

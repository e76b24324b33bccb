"""Connections that break, close or drain: what is under way ends, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from quire.bookie import BookieAddress
from quire.errors import BookieUnavailableError
from quire.ledger.remote import RemoteBookie
from quire.storage.serving.grpc_service import BookieService, serve_bookie
from quire.storage.serving.limits import Reception
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from tests.wire.link import KEY, SEALER, SOON, GatedBookie, connected, far, run_of, served

pytestmark = pytest.mark.usefixtures("carrier")

# --- breaking -------------------------------------------------------------------------------------


def test_a_lost_connection_fails_what_is_under_way_and_the_next_add_reconnects() -> None:
    async def main() -> None:
        stuck = GatedBookie()
        async with served(stuck, drain_seconds=0.0) as address:
            stub = far(address)
            adds = [asyncio.ensure_future(stub.add(7, KEY, run_of(entry))) for entry in range(5)]
            read = asyncio.create_task(stub.read(7, 0, 0))
            wait = asyncio.create_task(stub.wait_tail(7, 0, 60.0))
            await stuck.arrived(7)
        results = await asyncio.gather(*adds, read, wait, return_exceptions=True)
        assert [type(result) for result in results] == [BookieUnavailableError] * 7
        with pytest.raises(BookieUnavailableError):
            await stub.add(7, KEY, run_of(0))
        healthy = MemoryBookie("b1")
        again = serve_bookie(healthy, "b1", address.address, listen_runs=address.runs)
        async with again, asyncio.timeout(SOON):
            while not healthy.ledgers:
                try:
                    await stub.add(7, KEY, run_of(0))
                except BookieUnavailableError:
                    await asyncio.sleep(0.01)
            while True:  # calls have a connection of their own
                try:
                    assert await stub.read(7, 0, 0) == run_of(0)
                    break
                except BookieUnavailableError:
                    await asyncio.sleep(0.01)
        await stub.close()

    asyncio.run(main())


def test_nobody_listening_is_an_unavailable_bookie() -> None:
    async def main() -> None:
        async with served(MemoryBookie("b1")) as address:
            pass
        stub = far(address)
        for call in (stub.add(7, KEY, run_of(0)), stub.info(), stub.read(7, 0, 0)):
            with pytest.raises(BookieUnavailableError, match="Connection refused") as raised:
                await call
            assert raised.value.bookie == "b1"
        await stub.close()

    asyncio.run(main())


def test_an_add_without_answer_breaks_its_stream_only() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with connected(bookie, request_timeout=0.1) as stub:
            adds = [stub.add(7, KEY, run_of(entry)) for entry in range(3)]
            results = await asyncio.gather(*adds, return_exceptions=True)
            assert [str(result) for result in results] == [
                "bookie b1 is unavailable: no answer within 0.1 s"
            ] * 3
            bookie.gate.set()
            await stub.add(7, KEY, run_of(3))
            assert (await stub.list_entries(7))[-1][1] == 3

    asyncio.run(main())


def test_every_request_has_a_deadline() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with connected(bookie, request_timeout=0.05) as stub:
            calls = [
                stub.read(7, 0, 0),
                stub.read_tail(7),
                stub.wait_tail(7, 0, 0.01),
                stub.write_lac(7, KEY, SEALER.seal_lac(0)),
                stub.list_entries(7),
            ]
            for result in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(result, BookieUnavailableError)
                assert "no answer within" in str(result)

    asyncio.run(main())


def test_a_steady_stream_outlives_the_deadline_of_one_request() -> None:
    async def main() -> None:
        async with connected(MemoryBookie("b1"), request_timeout=0.2) as stub:
            loop = asyncio.get_running_loop()
            end, entry = loop.time() + 0.6, 0
            while loop.time() < end:
                await stub.add(7, KEY, run_of(entry))
                entry += 1
            assert await stub.list_entries(7) == [(0, entry - 1)]

    asyncio.run(main())


def test_closing_fails_what_is_under_way_without_cancelling_its_callers() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with connected(bookie) as stub:
            tasks: list[asyncio.Future[Any]] = [
                asyncio.ensure_future(stub.add(7, KEY, run_of(0))),
                asyncio.create_task(stub.read(7, 0, 0)),
                asyncio.create_task(stub.wait_tail(7, 0, 60.0)),
            ]
            await bookie.arrived(3)
            await stub.close()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(result, BookieUnavailableError)
            await stub.close()
            for call in (stub.add(7, KEY, run_of(0)), stub.info()):
                with pytest.raises(BookieUnavailableError, match="closed"):
                    await call

    asyncio.run(main())


def test_a_stub_that_was_never_used_closes() -> None:
    async def main() -> None:
        await far("127.0.0.1:1").close()

    asyncio.run(main())


# --- draining -------------------------------------------------------------------------------------


def test_a_server_that_stops_finishes_what_it_began() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with served(bookie, drain_seconds=SOON) as address:
            stub = far(address)
            adds = [asyncio.ensure_future(stub.add(7, KEY, run_of(entry))) for entry in range(3)]
            await bookie.arrived(3)
            asyncio.get_running_loop().call_soon(bookie.gate.set)
        await asyncio.gather(*adds)
        assert await bookie.list_entries(7) == [(0, 2)]
        await stub.close()

    asyncio.run(main())


def test_a_draining_server_takes_nothing_new() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        serving, address = await _serve(bookie)
        stub = far(address)
        first = asyncio.ensure_future(stub.add(7, KEY, run_of(0)))
        await bookie.arrived(1)
        serving.cancel()
        with pytest.raises(BookieUnavailableError, match="shutting down"):
            await stub.read_tail(8)
        second = asyncio.ensure_future(stub.add(7, KEY, run_of(1)))
        with pytest.raises(BookieUnavailableError, match="shutting down"):
            await stub.read(7, 0, 0)
        bookie.gate.set()
        await first
        with pytest.raises(BookieUnavailableError):
            await second
        await asyncio.gather(serving, return_exceptions=True)
        assert await bookie.list_entries(7) == [(0, 0)]
        await stub.close()

    asyncio.run(main())


CALLS: dict[str, Callable[[RemoteBookie], Awaitable[object]]] = {
    "read": lambda stub: stub.read(7, 0, 0),
    "read_tail": lambda stub: stub.read_tail(7, fence_key=KEY),
    "sync": lambda stub: stub.sync(7, KEY, 0, 0),
    "write_lac": lambda stub: stub.write_lac(7, KEY, SEALER.seal_lac(0)),
    "list_entries": lambda stub: stub.list_entries(7),
    "list_ledgers": lambda stub: stub.list_ledgers(),
    "outlines": lambda stub: stub.outlines([7]),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_stops_answers_the_calls_under_way(call: str) -> None:
    async def main() -> None:
        bookie = GatedBookie()
        bookie.gate.set()
        serving, address = await _serve(bookie)
        stub = far(address)
        await stub.add(7, KEY, run_of(0))
        bookie.gate.clear()
        answer = asyncio.ensure_future(CALLS[call](stub))
        await bookie.arrived(1)
        serving.cancel()
        await _refused(stub)
        bookie.gate.set()
        await answer
        await asyncio.gather(serving, return_exceptions=True)
        await stub.close()

    asyncio.run(main())


class _Context:
    """What a handler knows of its call; the test says when the answer has left."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[object], None]] = []

    def add_done_callback(self, callback: Callable[[object], None]) -> None:
        self.callbacks.append(callback)

    def peer(self) -> str:
        return "ipv4:192.0.2.1:1"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    async def write(self, _: object) -> None:
        return

    def end(self) -> None:
        for callback in self.callbacks:
            callback(self)


@pytest.mark.parametrize("method", ["Info", "Read"])
def test_draining_lasts_until_the_last_answer_has_left(method: str) -> None:
    async def main() -> None:
        bookie = MemoryBookie("b1")
        reception, context = Reception(bookie, "b1"), _Context()
        request = pb.InfoRequest(bookie="b1") if method == "Info" else pb.ReadRequest(bookie="b1")
        await getattr(BookieService(reception), method)(request, context)
        draining = asyncio.ensure_future(reception.drain())
        await reception.ended()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not draining.done()  # the handler has returned, its answer is still here
        context.end()
        await draining

    asyncio.run(main())


async def _refused(stub: RemoteBookie) -> None:
    """Return once the server takes nothing new."""
    with suppress(BookieUnavailableError):
        while True:
            await stub.info()


async def _serve(bookie: MemoryBookie) -> tuple[asyncio.Task[None], BookieAddress]:
    """Return a task that serves a bookie until it is cancelled, and the address."""
    started: asyncio.Future[BookieAddress] = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        async with served(bookie, drain_seconds=SOON) as address:
            started.set_result(address)
            await asyncio.Event().wait()

    serving = asyncio.create_task(serve())
    return serving, await started

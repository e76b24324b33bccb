"""Both ends over a real connection: what breaks, what waits, and what is left afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from quire.bookie import BookieAddress
from quire.entry import DigestKind, LedgerId, Sealer
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    ConfigurationError,
    InvalidRequestError,
    WrongBookieError,
)
from quire.ledger import remote
from quire.ledger.remote import RemoteBookie
from quire.run import pack_run
from quire.storage.service import ServiceLimits, serve_bookie
from quire.wire import bookie_pb2 as pb
from quire.wire import bookie_pb2_grpc as rpc
from quire.wire.transport import EOF, MESSAGE_BYTES_MAX, SENT_RUN_BYTES_MAX, RpcError, open_channel
from tests.support.memory_bookie import MemoryBookie

SEALER = Sealer(7, DigestKind.CRC32C, b"secret")
KEY = SEALER.access_key
SOON = 10.0


def run_of(entry: int, size: int = 1) -> bytes:
    return pack_run([SEALER.seal(entry, entry - 1, 2**40, b"x" * size)])


class GatedBookie(MemoryBookie):
    """A bookie whose requests wait at a gate; it counts who waits there."""

    def __init__(self) -> None:
        super().__init__("b1")
        self.gate = asyncio.Event()
        self.waiting = 0
        self.waiting_max = 0
        self._arrival = asyncio.Event()
        self.before = self._pass

    async def _pass(self, method: str, ledger: LedgerId) -> None:
        self.waiting += 1
        self.waiting_max = max(self.waiting, self.waiting_max)
        self._arrival.set()
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1

    async def arrived(self, count: int) -> None:
        """Return once `count` requests wait at the gate."""
        async with asyncio.timeout(SOON):
            while self.waiting < count:
                self._arrival.clear()
                await self._arrival.wait()


def far(address: str, *, request_timeout: float = SOON, bookie: str = "b1") -> RemoteBookie:
    return RemoteBookie(BookieAddress(bookie, address), request_timeout=request_timeout)


@asynccontextmanager
async def connected(
    bookie: MemoryBookie,
    *,
    limits: ServiceLimits | None = None,
    request_timeout: float = SOON,
    drain_seconds: float = 0.0,
) -> AsyncIterator[RemoteBookie]:
    async with serve_bookie(bookie, "b1", limits=limits, drain_seconds=drain_seconds) as address:
        stub = far(address, request_timeout=request_timeout)
        try:
            yield stub
        finally:
            await stub.close()


@asynccontextmanager
async def raw_adds(address: str) -> AsyncIterator[Any]:
    """The Add stream itself, without the stub."""
    channel = open_channel(address)
    try:
        yield rpc.BookieStub(channel).Add()
    finally:
        await channel.close(None)


def add_run(entry: int) -> pb.AddRun:
    return pb.AddRun(ledger=7, key=KEY, run=run_of(entry))


# --- breaking -------------------------------------------------------------------------------------


def test_a_lost_connection_fails_what_is_under_way_and_the_next_add_reconnects() -> None:
    async def main() -> None:
        stuck = GatedBookie()
        async with serve_bookie(stuck, "b1", drain_seconds=0.0) as address:
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
        async with serve_bookie(healthy, "b1", address), asyncio.timeout(SOON):
            while not healthy.ledgers:
                try:
                    await stub.add(7, KEY, run_of(0))
                except BookieUnavailableError:
                    await asyncio.sleep(0.01)
            assert await stub.read(7, 0, 0) == run_of(0)
        await stub.close()

    asyncio.run(main())


def test_nobody_listening_is_an_unavailable_bookie() -> None:
    async def main() -> None:
        async with serve_bookie(MemoryBookie("b1"), "b1") as address:
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


# --- identity and limits --------------------------------------------------------------------------


def test_another_bookie_at_the_address_refuses_everything() -> None:
    async def main() -> None:
        bookie = MemoryBookie("b1")
        async with serve_bookie(bookie, "b1") as address:
            stub = far(address, bookie="b2")
            calls = [
                stub.add(7, KEY, run_of(0)),
                stub.add(7, KEY, run_of(1)),
                stub.read(7, 0, 0, fence_key=KEY),
                stub.read_tail(7, fence_key=KEY),
                stub.wait_tail(7, 0, 60.0),
                stub.write_lac(7, KEY, SEALER.seal_lac(0)),
                stub.list_entries(7),
                stub.info(),
            ]
            for result in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(result, WrongBookieError)
                assert (result.expected, result.found) == ("bookie b2", "bookie b1")
            assert not bookie.ledgers
            await stub.close()

    asyncio.run(main())


def test_a_run_too_large_to_send_harms_no_other() -> None:
    async def main() -> None:
        async with connected(MemoryBookie("b1")) as stub:
            first = asyncio.ensure_future(stub.add(7, KEY, run_of(0)))
            with pytest.raises(InvalidRequestError, match="exceeds"):
                await stub.add(7, KEY, bytes(SENT_RUN_BYTES_MAX + 1))
            await first
            with pytest.raises(InvalidRequestError):
                await stub.add(7, KEY, bytes(SENT_RUN_BYTES_MAX))
            await stub.add(7, KEY, run_of(1))
            assert await stub.list_entries(7) == [(0, 1)]

    asyncio.run(main())


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_numbers_that_fit_no_message_are_refused(number: int) -> None:
    async def main() -> None:
        async with connected(MemoryBookie("b1")) as stub:
            for call in (
                stub.add(number, KEY, run_of(0)),
                stub.read(7, 0, number),
                stub.read_tail(number),
                stub.wait_tail(7, number, 1.0),
            ):
                with pytest.raises(InvalidRequestError):
                    await call

    asyncio.run(main())


def test_messages_beyond_the_limit_are_refused_by_the_server() -> None:
    async def main() -> None:
        bookie = MemoryBookie("b1")
        async with serve_bookie(bookie, "b1") as address:
            options = (("grpc.max_send_message_length", -1),)
            async with grpc.aio.insecure_channel(address, options=options) as channel:
                call = rpc.BookieStub(channel).Add()
                run = pb.AddRun(ledger=7, key=KEY, run=bytes(MESSAGE_BYTES_MAX))
                await call.write(pb.AddRequest(bookie="b1", first=1, runs=[run]))
                with pytest.raises(RpcError):
                    assert await call.read() is EOF
            stub = far(address)
            assert (await stub.info()).ledgers == 0
            await stub.close()

    asyncio.run(main())


def test_runs_in_flight_are_bounded_and_all_are_carried_out() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with connected(bookie, limits=ServiceLimits(runs_per_stream=3)) as stub:
            adds = [asyncio.ensure_future(stub.add(7, KEY, run_of(entry))) for entry in range(20)]
            await bookie.arrived(3)
            bookie.gate.set()
            await asyncio.gather(*adds)
            assert bookie.waiting_max == 3
            assert await stub.list_entries(7) == [(0, 19)]

    asyncio.run(main())


def test_bytes_in_flight_are_bounded_but_a_large_run_passes_alone() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with connected(bookie, limits=ServiceLimits(bytes_per_stream=100)) as stub:
            adds = [
                asyncio.ensure_future(stub.add(7, KEY, run_of(entry, size=1000)))
                for entry in range(5)
            ]
            await bookie.arrived(1)
            bookie.gate.set()
            await asyncio.gather(*adds)
            assert bookie.waiting_max == 1

    asyncio.run(main())


def test_the_stub_refuses_what_it_cannot_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "QUEUED_BYTES_MAX", 3000)

    async def main() -> None:
        async with connected(MemoryBookie("b1")) as stub:
            adds = [stub.add(7, KEY, run_of(entry, size=1000)) for entry in range(5)]
            results = await asyncio.gather(*adds, return_exceptions=True)
            kept = [entry for entry, result in enumerate(results) if result is None]
            assert [type(result) for result in results if result] == [BookieBusyError] * 3
            assert await stub.list_entries(7) == [(kept[0], kept[-1])]

    asyncio.run(main())


def test_reads_and_waits_are_bounded() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with connected(bookie, limits=ServiceLimits(reads=1, waits=1)) as stub:
            read = asyncio.create_task(stub.read(7, 0, 0))
            wait = asyncio.create_task(stub.wait_tail(7, -1, 60.0))
            await bookie.arrived(2)
            with pytest.raises(BookieBusyError):
                await stub.read(7, 0, 0)
            with pytest.raises(BookieBusyError):
                await stub.wait_tail(7, -1, 60.0)
            bookie.gate.set()
            await asyncio.gather(read, return_exceptions=True)
            await stub.add(7, KEY, run_of(0))
            assert await stub.read(7, 0, 0) == run_of(0)
            wait.cancel()

    asyncio.run(main())


@pytest.mark.parametrize(
    "listen", ["127.0.0.1", ":80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536"]
)
def test_addresses_that_make_no_sense(listen: str) -> None:
    async def main() -> None:
        with pytest.raises(ConfigurationError, match="host:port"):
            async with serve_bookie(MemoryBookie("b1"), "b1", listen):
                pass

    asyncio.run(main())


def test_a_port_in_use_is_named() -> None:
    async def main() -> None:
        async with serve_bookie(MemoryBookie("b1"), "b1") as address:
            with pytest.raises(ConfigurationError, match=address):
                async with serve_bookie(MemoryBookie("b2"), "b2", address):
                    pass

    asyncio.run(main())


# --- acknowledging --------------------------------------------------------------------------------


async def reply_of(call: Any) -> pb.AddReply:
    async with asyncio.timeout(SOON):
        reply = await call.read()
    assert isinstance(reply, pb.AddReply)
    return reply


def test_runs_that_become_durable_together_are_acknowledged_by_one_message() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with serve_bookie(bookie, "b1") as address, raw_adds(address) as call:
            runs = [add_run(0), add_run(1), pb.AddRun(ledger=7, key=KEY, run=b"junk"), add_run(2)]
            await call.write(pb.AddRequest(bookie="b1", first=1, runs=runs))
            await bookie.arrived(4)
            bookie.gate.set()
            reply = await reply_of(call)
            assert reply.settled == 4
            assert [(f.number, f.failure.status) for f in reply.failures] == [
                (3, pb.INVALID_REQUEST)
            ]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (pb.AddRequest(bookie="b1", first=2, runs=[add_run(0)]), pb.INVALID_REQUEST),
        (pb.AddRequest(bookie="b1", first=0, runs=[add_run(0)]), pb.INVALID_REQUEST),
        (pb.AddRequest(bookie="b1", first=1), pb.INVALID_REQUEST),
        (pb.AddRequest(first=1, runs=[add_run(0)]), pb.WRONG_BOOKIE),
    ],
)
def test_a_stream_that_breaks_the_rules_is_refused(message: pb.AddRequest, status: int) -> None:
    async def main() -> None:
        bookie = MemoryBookie("b1")
        async with serve_bookie(bookie, "b1") as address, raw_adds(address) as call:
            await call.write(message)
            assert (await reply_of(call)).refusal.status == status
            assert await call.read() is EOF
            assert not bookie.ledgers

    asyncio.run(main())


def test_what_came_before_a_broken_rule_is_still_answered() -> None:
    async def main() -> None:
        async with serve_bookie(MemoryBookie("b1"), "b1") as address, raw_adds(address) as call:
            await call.write(pb.AddRequest(bookie="b1", first=1, runs=[add_run(0)]))
            assert (await reply_of(call)).settled == 1
            await call.write(pb.AddRequest(first=1, runs=[add_run(1)]))
            assert (await reply_of(call)).HasField("refusal")

    asyncio.run(main())


def test_a_client_that_finishes_gets_its_last_answers() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with serve_bookie(bookie, "b1") as address, raw_adds(address) as call:
            await call.write(pb.AddRequest(bookie="b1", first=1, runs=[add_run(0)]))
            await call.done_writing()
            await bookie.arrived(1)
            bookie.gate.set()
            assert (await reply_of(call)).settled == 1
            assert await call.read() is EOF

    asyncio.run(main())


def test_defects_of_a_bookie_go_to_its_log_only(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(method: str, ledger: LedgerId) -> None:
        raise RuntimeError("the secret detail")

    async def main() -> None:
        bookie = MemoryBookie("b1")
        bookie.before = fail
        async with connected(bookie) as stub:
            calls = [stub.add(7, KEY, run_of(0)), stub.read(7, 0, 0), stub.list_entries(7)]
            for result in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(result, BookieUnavailableError)
                assert "internal error" in str(result)
                assert "secret" not in str(result)

    asyncio.run(main())
    assert caplog.text.count("RuntimeError: the secret detail") == 3


# --- draining -------------------------------------------------------------------------------------


def test_a_server_that_stops_finishes_what_it_began() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with serve_bookie(bookie, "b1", drain_seconds=SOON) as address:
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
        stopping = asyncio.Event()

        async def serve(started: asyncio.Future[str]) -> None:
            async with serve_bookie(bookie, "b1", drain_seconds=SOON) as address:
                started.set_result(address)
                await stopping.wait()

        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(started))
        stub = far(await started)
        first = asyncio.ensure_future(stub.add(7, KEY, run_of(0)))
        await bookie.arrived(1)
        stopping.set()
        with pytest.raises(BookieUnavailableError, match="shutting down"):
            await stub.read_tail(8)
        second = asyncio.ensure_future(stub.add(7, KEY, run_of(1)))
        with pytest.raises(BookieUnavailableError, match="shutting down"):
            await stub.read(7, 0, 0)
        bookie.gate.set()
        await first
        with pytest.raises(BookieUnavailableError):
            await second
        await serving
        assert await bookie.list_entries(7) == [(0, 0)]
        await stub.close()

    asyncio.run(main())

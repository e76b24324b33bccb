"""Identity and limits: another bookie, sizes, numbers, addresses, and what is in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import grpc.aio
import pytest

from quire.entry import DigestKind, Sealer
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    ConfigurationError,
    InvalidRequestError,
    LedgerFencedError,
    WrongBookieError,
)
from quire.ledger import run_stream
from quire.ledger.remote import RemoteBookie
from quire.storage.serving.grpc_service import serve_bookie
from quire.storage.serving.limits import ServiceLimits
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire import bookie_pb2_grpc as rpc
from quire.wire.transport import (
    EOF,
    MESSAGE_BYTES_MAX,
    SENT_RUN_BYTES_MAX,
    RpcError,
)
from tests.wire.link import KEY, SEALER, GatedBookie, connected, far, run_of, served

pytestmark = pytest.mark.usefixtures("carrier")


def test_another_bookie_at_the_address_refuses_everything() -> None:
    async def main() -> None:
        bookie = MemoryBookie("b1")
        async with served(bookie) as address:
            stub = far(replace(address, bookie="b2"))
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


def test_a_lac_that_is_refused_harms_no_run_beside_it() -> None:
    async def main() -> None:
        async with connected(MemoryBookie("b1")) as stub:
            await stub.read_tail(8, fence_key=KEY)
            calls = [
                stub.add(7, KEY, run_of(0)),
                stub.write_lac(8, KEY, Sealer(8, DigestKind.CRC32C, b"secret").seal_lac(0)),
                stub.add(7, KEY, run_of(1)),
                stub.write_lac(7, KEY, SEALER.seal_lac(1)),
            ]
            first, refused, *others = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(refused, LedgerFencedError)
            assert (first, others) == (None, [None, None])
            tail = await stub.read_tail(7)
            assert tail.lac_packet == SEALER.seal_lac(1)

    asyncio.run(main())


def test_an_error_of_any_kind_is_no_ack() -> None:
    class Broken(MemoryBookie):
        def add(self, *_: object, **__: object) -> asyncio.Future[None]:  # type: ignore[override]
            answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            answer.set_exception(asyncio.CancelledError())
            return answer

    async def main() -> None:
        async with connected(Broken("b1")) as stub:
            with pytest.raises(BookieUnavailableError, match="internal"):
                await stub.add(7, KEY, run_of(0))

    asyncio.run(main())


def test_many_lacs_go_in_messages_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that queue while a connection is made, too: the run among them must not suffer."""
    bytes_max = 64 * 1024
    monkeypatch.setattr(run_stream, "BATCH_BYTES_MAX", bytes_max)

    async def main() -> None:
        async with connected(MemoryBookie("b1")) as stub:
            packet = SEALER.seal_lac(5)
            count = 3 * bytes_max // len(packet) // 2
            lacs = [asyncio.ensure_future(stub.write_lac(7, KEY, packet)) for _ in range(count)]
            await asyncio.sleep(0)
            assert stub._stream is not None
            sizes: list[int] = []
            write = stub._stream._call.write

            async def measured(*parts: bytes) -> None:
                sizes.append(sum(map(len, parts)))
                await write(*parts)

            stub._stream._call.write = measured  # type: ignore[method-assign]
            await stub.add(7, KEY, run_of(0))
            await asyncio.gather(*lacs)
            assert len(sizes) > 1
            assert max(sizes) < bytes_max + 8 * count // len(sizes)

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
        async with served(bookie) as address:
            options = (("grpc.max_send_message_length", -1),)
            async with grpc.aio.insecure_channel(address.address, options=options) as channel:
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
    monkeypatch.setattr(run_stream, "QUEUED_BYTES_MAX", 3000)

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
    ("limits", "call"),
    [
        (ServiceLimits(tails=1), lambda stub: stub.read_tail(7)),
        (ServiceLimits(tails=1), lambda stub: stub.read_tail(7, fence_key=KEY)),
        (ServiceLimits(lists=1), lambda stub: stub.list_entries(7)),
        (ServiceLimits(lists=1), lambda stub: stub.list_ledgers()),
        (ServiceLimits(lists=1), lambda stub: stub.outlines([7])),
        (ServiceLimits(syncs=1), lambda stub: stub.sync(7, KEY, 0, 1)),
    ],
    ids=["tail", "fencing tail", "list", "ledgers", "outlines", "sync"],
)
def test_everything_that_waits_is_bounded(
    limits: ServiceLimits, call: Callable[[RemoteBookie], Awaitable[object]]
) -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with connected(bookie, limits=limits) as stub:
            first = asyncio.ensure_future(call(stub))
            await bookie.arrived(1)
            with pytest.raises(BookieBusyError):
                await call(stub)
            bookie.gate.set()
            await first
            await call(stub)

    asyncio.run(main())


@pytest.mark.parametrize(
    "listen", ["127.0.0.1", ":80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536"]
)
def test_addresses_that_make_no_sense(listen: str) -> None:
    async def main() -> None:
        with pytest.raises(ConfigurationError, match="host:port"):
            async with serve_bookie(MemoryBookie("b1"), "b1", listen):
                pass
        with pytest.raises(ConfigurationError, match="host:port"):
            async with serve_bookie(MemoryBookie("b1"), "b1", listen_runs=listen):
                pass

    asyncio.run(main())


@pytest.mark.parametrize("port", ["address", "runs"])
def test_a_port_in_use_is_named(port: str) -> None:
    async def main() -> None:
        async with serve_bookie(MemoryBookie("b1"), "b1", listen_runs="127.0.0.1:0") as address:
            assert address.runs is not None
            taken = address.address if port == "address" else address.runs
            with pytest.raises(ConfigurationError, match=taken):
                async with serve_bookie(MemoryBookie("b2"), "b2", taken):
                    pass
            with pytest.raises(ConfigurationError, match=taken):
                async with serve_bookie(MemoryBookie("b2"), "b2", listen_runs=taken):
                    pass

    asyncio.run(main())

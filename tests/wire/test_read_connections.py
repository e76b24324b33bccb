"""Reads over real connections, and peers of before."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace

import pytest

from quire.errors import (
    BookieUnavailableError,
    NoSuchEntryError,
    NotPermittedError,
    QuireError,
    WrongBookieError,
)
from quire.ledger import read_link
from quire.ledger.remote import RemoteBookie
from quire.rights.roles import Action
from quire.storage.serving import run_listener
from quire.storage.serving.grpc_service import serve_bookie
from quire.testing.bookie import MemoryBookie
from quire.wire.run_calls import FramedReads
from tests.rights.test_doors import Keeper
from tests.rights.test_doors import served as guarded
from tests.wire import link
from tests.wire.link import KEY

HERE = "127.0.0.1:0"


def run_of(entry: int, size: int = 100) -> bytes:
    return link.run_of(entry, size)


pytestmark = pytest.mark.real_time


@asynccontextmanager
async def served(entries: int = 3, size: int = 100) -> AsyncIterator[RemoteBookie]:
    bookie = MemoryBookie("b1")
    for entry in range(entries):
        await bookie.add(7, KEY, run_of(entry, size))
    async with serve_bookie(bookie, "b1", HERE, HERE) as address:
        stub = RemoteBookie(address)
        try:
            yield stub
        finally:
            await stub.close()


class NoGrpcError(AssertionError):
    """A read went over gRPC."""


@pytest.fixture
def _frames_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def collect(self: RemoteBookie, call: object) -> bytes:
        raise NoGrpcError

    monkeypatch.setattr(RemoteBookie, "_collect", collect)


@pytest.fixture
def _grpc_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(self: FramedReads) -> bytes:
        raise AssertionError("a read came over frames")

    monkeypatch.setattr(FramedReads, "read", read)


@pytest.mark.usefixtures("_frames_only")
async def test_reads_come_over_a_connection_of_their_own() -> None:
    async with served() as stub:
        assert await stub.read(7, 0, 2) == b"".join(map(run_of, range(3)))
        runs = await asyncio.gather(*(stub.read(7, each % 3, each % 3) for each in range(100)))
        assert runs == [run_of(each % 3) for each in range(100)]
        with pytest.raises(NoSuchEntryError):
            await stub.read(7, 9, 9)


@pytest.mark.usefixtures("_frames_only")
async def test_large_answers_pass_between_others() -> None:
    async with served(4, 900_000) as stub:
        reads = [stub.read(7, 0, 3, bytes_max=2**22), stub.read(7, 1, 1), stub.read(7, 0, 3)]
        whole, one, cut = await asyncio.gather(*reads)
        assert whole == b"".join(run_of(each, 900_000) for each in range(4))
        assert one == run_of(1, 900_000)
        assert whole.startswith(cut)
        assert len(cut) < len(whole)


@pytest.mark.usefixtures("_frames_only")
async def test_the_right_to_read_is_looked_at() -> None:
    async with guarded(Keeper(Action.READ), "frames") as (stub, _, refusals):
        with pytest.raises(NotPermittedError):
            await stub.read(7, 0, 0)
        assert refusals.counts["rights"] == 1


async def test_a_bookie_with_another_id_is_noticed() -> None:
    async with served() as stub:
        other = RemoteBookie(replace(stub.address, bookie="b2"))
        with pytest.raises(WrongBookieError):
            await other.read(7, 0, 0)
        await other.close()


@pytest.mark.usefixtures("_grpc_only")
async def test_a_bookie_of_before_is_asked_over_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_listener, "FEATURES", frozenset())
    async with served() as stub:
        assert await stub.read(7, 1, 1) == run_of(1)


@pytest.mark.usefixtures("_grpc_only")
@pytest.mark.parametrize("without", ["a port", "a hello", "an answer"])
async def test_so_is_one_whose_port_cannot_be_used(without: str) -> None:
    async with served() as stub:
        address = {
            "a port": replace(stub.address, runs=None),
            "a hello": replace(stub.address, says_hello=False),
            "an answer": replace(stub.address, runs="127.0.0.1:1"),
        }[without]
        other = RemoteBookie(address)
        assert await other.read(7, 1, 1) == run_of(1)
        await other.close()


async def test_a_bookie_that_ends_breaks_its_reads() -> None:
    async with served() as stub:
        assert await stub.read(7, 1, 1) == run_of(1)
    other = RemoteBookie(stub.address, request_timeout=2.0)
    with pytest.raises(QuireError):
        await other.read(7, 1, 1)
    await other.close()
    with pytest.raises(BookieUnavailableError, match="its stub was closed"):
        await other.read(7, 1, 1)


@pytest.mark.usefixtures("_frames_only")
async def test_a_read_that_is_cancelled_disturbs_no_other() -> None:
    async with served(3, 500_000) as stub:
        for delay in (0.0, 0.0005, 0.001, 0.002, 0.004):
            reads = [asyncio.create_task(stub.read(7, 0, 2)) for _ in range(4)]
            await asyncio.sleep(delay)
            reads[0].cancel()
            reads[2].cancel()
            done = await asyncio.gather(*reads, return_exceptions=True)
            for kept in (done[1], done[3]):
                assert isinstance(kept, bytes)
                assert kept.startswith(run_of(0, 500_000))


@pytest.mark.usefixtures("_grpc_only")
async def test_a_network_may_drop_what_is_sent_to_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_link, "PATIENCE_SECONDS", 0.01)
    async with served() as stub:
        with socket.socket() as full, ExitStack() as clients:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            for _ in range(4):  # its queue is full now: the next handshake gets no answer
                client = clients.enter_context(socket.socket())
                client.setblocking(False)
                with suppress(BlockingIOError):
                    client.connect(full.getsockname())
            runs = f"127.0.0.1:{full.getsockname()[1]}"
            other = RemoteBookie(replace(stub.address, runs=runs))
            assert await other.read(7, 1, 1) == run_of(1)
            await asyncio.wait_for(other.close(), 5)

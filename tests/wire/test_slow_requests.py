"""A slow request is in the log of the client and of the bookie, under one id, with its stages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quire.bookie import BookieAddress
from quire.entry import LedgerId
from quire.errors import BookieUnavailableError
from quire.ledger.remote import RemoteBookie
from quire.requests import requesting
from quire.storage.disk.local import LocalDisk
from quire.storage.serving.grpc_service import BookieService, serve_bookie
from quire.storage.serving.limits import Reception, ServiceLimits
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from tests.contract.bookie.subjects import node_on
from tests.wire.link import KEY, SOON, GatedBookie, run_of

HERE = "127.0.0.1:0"
TOO_LONG = 1e-9
"""Seconds: each request is slow."""

by_each_carrier = pytest.mark.parametrize("runs", [HERE, None], ids=["frames", "grpc"])


@asynccontextmanager
async def linked(
    bookie: Any, runs: str | None, *, slow: float = TOO_LONG, timeout: float = SOON
) -> AsyncIterator[RemoteBookie]:
    limits = ServiceLimits(slow_request_seconds=slow)
    async with serve_bookie(bookie, "b1", HERE, runs, limits=limits) as address:
        stub = RemoteBookie(address, slow_seconds=slow, request_timeout=timeout)
        try:
            yield stub
        finally:
            await stub.close()


class Heard(logging.Handler):
    """What the log of slow requests says, as keys."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []
        self._more = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append({**vars(record), "text": record.getMessage()})
        self._more.set()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.lines if each["kind"] == kind]

    async def some(self, kind: str, count: int = 2) -> list[dict[str, Any]]:
        """Return the lines of a kind, once there are so many: a bookie's come after its answer."""
        async with asyncio.timeout(SOON):
            while len(self.of(kind)) < count:
                self._more.clear()
                await self._more.wait()
        return self.of(kind)


@pytest.fixture
def heard() -> Iterator[Heard]:
    log, handler = logging.getLogger("quire.slow"), Heard()
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


@pytest.mark.real_time
@by_each_carrier
async def test_an_append_is_found_by_its_id_on_both_sides(runs: str | None, heard: Heard) -> None:
    async with linked(MemoryBookie("b1"), runs) as stub:
        await stub.add(7, KEY, run_of(0))
        await stub.add(7, KEY, run_of(1))
        lines = await heard.some("add", 4)
    for entry in (0, 1):
        first, second = (each for each in lines if each["entry"] == entry)
        assert first["request"] == second["request"]
        assert first["request"].endswith(f"-{entry + 1}")
        assert (first["ledger"], first["bookie"]) == (second["ledger"], second["bookie"])
        assert {"queue", "answer"} in (set(first["stages"]), set(second["stages"]))  # the client
        assert first["peer"] != second["peer"], "each side names the other"
    assert len({each["request"].partition("-")[0] for each in lines}) == 1


CALLS: list[tuple[str, Callable[[RemoteBookie, LedgerId], Awaitable[object]]]] = [
    ("Read", lambda stub, ledger: stub.read(ledger, 0, 0)),
    ("ReadTail", lambda stub, ledger: stub.read_tail(ledger, fence_key=KEY)),
    ("Sync", lambda stub, ledger: stub.sync(ledger, KEY, 0, 0)),
    ("ListEntries", lambda stub, ledger: stub.list_entries(ledger)),
]


@pytest.mark.real_time
@pytest.mark.parametrize(("kind", "call"), CALLS, ids=[kind for kind, _ in CALLS])
async def test_other_calls_have_the_id_of_their_work(
    kind: str,
    call: Callable[[RemoteBookie, LedgerId], Awaitable[object]],
    heard: Heard,
) -> None:
    async with linked(MemoryBookie("b1"), HERE) as stub:
        await stub.add(7, KEY, run_of(0))
        with requesting("recovery-of-7"):
            await call(stub, 7)
        lines = await heard.some(kind)
    assert [(each["request"], each["ledger"]) for each in lines] == [("recovery-of-7", 7)] * 2


@pytest.mark.real_time
async def test_a_journal_names_its_stages(tmp_path: Path, heard: Heard) -> None:
    on_disk = node_on(LocalDisk(tmp_path), lambda: None)
    async with on_disk as subject, linked(subject.bookie, HERE) as stub:
        await stub.add(7, KEY, run_of(0))
        lines = await heard.some("add")
    (mine,) = (each for each in lines if "journal" in each["stages"])
    assert list(mine["stages"]) == ["accept", "queue", "journal", "answer"]
    assert mine["stages"]["journal"] > 0
    assert sum(mine["stages"].values()) == pytest.approx(mine["seconds"], abs=1e-5)


@pytest.mark.real_time
async def test_an_append_that_gets_no_answer_is_logged_with_the_failure(
    heard: Heard,
) -> None:
    bookie = GatedBookie()
    async with linked(bookie, HERE, slow=0.001, timeout=0.05) as stub:
        with pytest.raises(BookieUnavailableError, match="no answer within"):
            await stub.add(7, KEY, run_of(3))
        (line,) = heard.of("add")
        assert line["entry"] == 3
        assert "no answer within 0.05 s" in line["failure"]
        assert line["request"] in line["text"]
        bookie.gate.set()


@pytest.mark.real_time
@by_each_carrier
async def test_quick_requests_are_not_logged(runs: str | None, heard: Heard) -> None:
    async with linked(MemoryBookie("b1"), runs, slow=SOON) as stub:
        await stub.add(7, KEY, run_of(0))
        await stub.read(7, 0, 0)
        await stub.wait_tail(7, -2, SOON)
    assert not heard.lines


class Call:
    """A call of a client that named it, on the bookie's side."""

    def add_done_callback(self, _: object) -> None:
        pass

    def auth_context(self) -> dict[str, object]:
        return {}

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("quire-request", "poll-1"),)

    def peer(self) -> str:
        return "ipv4:10.0.0.1:5"


async def test_a_long_poll_is_not_slow_at_the_bookie(heard: Heard) -> None:
    service = BookieService(Reception(MemoryBookie("b1"), "b1"))
    request = pb.WaitTailRequest(bookie="b1", ledger=7, above=5, timeout_ms=300_000)
    context: Any = Call()
    await service.WaitTail(request, context)
    assert not heard.lines


@pytest.mark.real_time
async def test_a_long_poll_is_not_slow_at_the_client(heard: Heard) -> None:
    async with linked(MemoryBookie("b1"), HERE) as stub:
        await stub.add(7, KEY, run_of(0))
        await stub.wait_tail(7, -2, SOON)
        of_client = [each for each in heard.of("WaitTail") if each["peer"] == stub.address.address]
    assert not of_client


@pytest.mark.real_time
async def test_a_bookie_serves_a_client_that_names_no_stream(
    heard: Heard,
) -> None:
    limits = ServiceLimits(slow_request_seconds=TOO_LONG)
    async with serve_bookie(MemoryBookie("b1"), "b1", HERE, HERE, limits=limits) as address:
        stub = RemoteBookie(
            BookieAddress("b1", address.address, runs=address.runs, says_hello=False),
            slow_seconds=float("inf"),
        )
        await stub.add(7, KEY, run_of(0))
        lines = await heard.some("add", 1)
        await stub.close()
    assert lines[0]["request"] == ""
    assert "request unnamed" in lines[0]["text"]

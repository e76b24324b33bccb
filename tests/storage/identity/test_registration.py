from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from quire.aio.backoff import Backoff
from quire.bookie import BookieAddress, BookieInfo
from quire.errors import (
    NoSuchNodeError,
    QuireError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    WrongBookieError,
)
from quire.labels import Labels
from quire.metastore.layout import bookie_path
from quire.metastore.memory import MemorySession, MemoryStore
from quire.metastore.registration import decode_registration, encode_registration
from quire.storage.identity import registration
from quire.storage.identity.registration import Registration
from quire.testing.bookie import MemoryBookie
from tests.support.virtual import virtually

PATH = bookie_path("b1")
PLACE = Labels(rack="r1")
HERE = BookieAddress("b1", "127.0.0.1:1000", labels=PLACE, room=1 << 40)
SOON = 10.0


class ObservedStore(MemoryStore):
    """A store that remembers the sessions opened through it."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[MemorySession] = []

    async def open_session(self, timeout: float) -> MemorySession:
        session = await super().open_session(timeout)
        self.sessions.append(session)
        return session


@dataclass
class Bench:
    store: ObservedStore = field(default_factory=ObservedStore)
    bookie: MemoryBookie = field(default_factory=lambda: MemoryBookie("b1"))
    ready: list[BookieAddress] = field(default_factory=list)

    def registration(self, address: str = HERE.address) -> Registration:
        here = BookieAddress("b1", address, labels=PLACE)
        return Registration(self.store, self.bookie, here, random.Random(1))

    async def registered(self, accept: Callable[[BookieAddress], bool]) -> BookieAddress:
        """Return the record once it is acceptable."""
        version: int | None = None
        async with asyncio.timeout(SOON):
            while True:
                try:
                    found = await self.store.get(PATH)
                    version = found.version
                    address = decode_registration("b1", found.value)
                    if accept(address):
                        return address
                except NoSuchNodeError:
                    version = None
                await self.store.wait(PATH, version)


@asynccontextmanager
async def kept(bench: Bench, room: int = HERE.room) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(bench.registration().keep(bench.ready.append))
    try:
        await bench.registered(lambda address: address == replace(HERE, room=room))
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(registration, "BACKOFF", Backoff(0.001, 5.0))


def test_a_bookie_is_registered_while_it_serves() -> None:
    async def main() -> None:
        bench = Bench()
        async with kept(bench):
            assert bench.ready == [HERE]
        with pytest.raises(NoSuchNodeError):
            await bench.store.get(PATH)

    asyncio.run(main())


def test_the_log_says_once_that_the_bookie_serves(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        caplog.set_level("INFO")
        bench = Bench()
        async with kept(bench):
            bench.store.sessions[0].expire()
            await bench.registered(lambda address: len(bench.store.sessions) > 1)
        assert caplog.text.count(f"bookie b1 serves at {HERE.address}") == 1

    virtually(main)


def test_the_record_follows_whether_the_bookie_is_writable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And its log says so, for whoever looks after the machine."""

    async def main() -> None:
        bench = Bench()
        async with kept(bench):
            bench.bookie.writable = False
            await bench.registered(lambda address: not address.writable)
            bench.bookie.writable = True
            await bench.registered(lambda address: address.writable)
            assert len(bench.ready) == 1

    asyncio.run(main())
    told = [record.getMessage() for record in caplog.records]
    assert [text.split(":")[0] for text in told] == [
        "bookie b1 takes no new entries",
        "bookie b1 takes new entries again",
    ]


def test_the_room_is_coarse_and_changes_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "CHECK_SECONDS", 1.0)
    bench, free, seen = Bench(), 5000, []

    async def info() -> BookieInfo:
        return BookieInfo("b1", True, free, 10_000, 0)

    async def main() -> None:
        nonlocal free
        async with kept(bench, room=4096):
            for free in (4097, 900, 900, 2100, 100):  # noqa: B007 `info` reads it
                await asyncio.sleep(25)
                seen.append((await bench.registered(lambda _: True)).room)

    monkeypatch.setattr(bench.bookie, "info", info)
    virtually(main)
    assert seen == [4096, 4096, 512, 512, 64], "after 25, 50, 75, 100 and 125 seconds"


@pytest.mark.parametrize("applied", [True, False])
def test_the_record_is_made_true_after_a_change_of_unknown_outcome(applied: bool) -> None:
    """Found by the simulator: the record said read-only of a bookie that was not, for ever."""

    async def main() -> None:
        bench = Bench()
        async with kept(bench):
            put, tried = bench.store.put, asyncio.Event()

            async def lose_answer(path: str, value: bytes, version: int) -> int:
                bench.store.put = put  # type: ignore[method-assign]
                if applied:
                    await put(path, value, version)
                bench.bookie.writable = True  # it has room again before it tries again
                tried.set()
                raise StoreOutcomeUnknownError(path, "lost")

            bench.store.put = lose_answer  # type: ignore[method-assign]
            bench.bookie.writable = False
            await tried.wait()
            await bench.registered(lambda address: address.writable)

    asyncio.run(main())


def test_a_lost_session_is_replaced() -> None:
    async def main() -> None:
        bench = Bench()
        async with kept(bench):
            first = (await bench.store.get(PATH)).version
            await bench.store.sessions[0].close()
            await bench.registered(lambda address: address == HERE)
            assert (await bench.store.get(PATH)).version > first
            assert len(bench.ready) == 1

    asyncio.run(main())


def test_a_record_that_vanished_is_made_again() -> None:
    async def main() -> None:
        bench = Bench()
        async with kept(bench):
            await bench.store.delete(PATH)
            await bench.registered(lambda address: address == HERE)

    asyncio.run(main())


def test_what_a_dead_process_left_is_replaced_at_once() -> None:
    async def main() -> None:
        bench = Bench()
        dead = await bench.store.open_session(3600.0)
        old = BookieAddress("b1", "127.0.0.1:999")
        await dead.create(PATH, encode_registration(old))
        async with kept(bench):
            pass
        await dead.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "error", [StoreUnavailableError("m", "x"), StoreOutcomeUnknownError("p", "x")]
)
def test_an_outage_that_the_session_survives_keeps_the_record(error: QuireError) -> None:
    class Patchy(ObservedStore):
        failures = 2

        async def put(self, path: str, value: bytes, version: int) -> int:
            if self.failures:
                self.failures -= 1
                raise error
            return await super().put(path, value, version)

    async def main() -> None:
        store = Patchy()
        bench = Bench(store=store)
        async with kept(bench):
            bench.bookie.writable = False
            await bench.registered(lambda address: not address.writable)
            assert not store.failures
            assert len(store.sessions) == 1

    asyncio.run(main())


def test_a_twin_ends_the_bookie() -> None:
    async def main() -> None:
        bench = Bench()
        async with kept(bench) as first:
            second = asyncio.create_task(bench.registration("127.0.0.1:2000").keep())
            async with asyncio.timeout(SOON):
                with pytest.raises(WrongBookieError, match=r"127\.0\.0\.1:2000"):
                    await first
            await bench.registered(lambda address: address.address == "127.0.0.1:2000")
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)

    asyncio.run(main())


def test_a_session_that_cannot_be_closed_keeps_nobody_from_ending() -> None:
    async def main() -> None:
        bench = Bench()
        async with kept(bench) as task:
            await bench.registered(lambda _: True)

            async def failing() -> None:
                raise StoreUnavailableError("memory:", "locked by another process for 5 s")

            bench.store.sessions[-1].close = failing  # type: ignore[method-assign]
            task.cancel()
            done, _ = await asyncio.wait({task}, timeout=SOON)
            assert done

    asyncio.run(main())


def test_a_store_that_cannot_be_reached_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    class Flaky(ObservedStore):
        failures = 3

        async def open_session(self, timeout: float) -> MemorySession:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailableError("memory:", "down for the test")
            return await super().open_session(timeout)

    async def main() -> None:
        bench = Bench(store=Flaky())
        async with kept(bench):
            assert bench.ready == [HERE]

    asyncio.run(main())
    assert caplog.text.count("down for the test") == 3

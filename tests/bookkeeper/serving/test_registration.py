"""The record of a bookie of quire in Apache's layout: at one of two paths, by its state."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from quire.aio.backoff import Backoff
from quire.bookie import BookieAddress
from quire.bookkeeper.registration import decode_registration, encode_registration
from quire.bookkeeper.serving.system import ApacheForm
from quire.errors import NoSuchNodeError, QuireError, StoreUnavailableError, WrongBookieError
from quire.metastore.memory import MemoryStore
from quire.storage.identity import registration
from quire.storage.identity.registration import Registration
from quire.testing.bookie import MemoryBookie

WRITABLE = "/ledgers/available/b1"
READ_ONLY = "/ledgers/available/readonly/b1"
HERE = BookieAddress("b1", "127.0.0.1:3181")
SOON = 10.0


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(registration, "BACKOFF", Backoff(0.001, 0.01))


class PatchyStore(MemoryStore):
    """A store that fails deletions of one path, a number of times, once it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0
        self.failing = ""
        self.applies = False
        """Whether a failed deletion has happened nevertheless."""

    async def delete(self, path: str, version: int | None = None) -> None:
        if path != self.failing or not self.failures:
            return await super().delete(path, version)
        self.failures -= 1
        if self.applies:
            await super().delete(path, version)
        raise StoreUnavailableError("memory:", "lost")


def registered(store: MemoryStore, bookie: MemoryBookie, at: BookieAddress = HERE) -> Registration:
    return Registration(store, bookie, at, random.Random(1), form=ApacheForm("/ledgers"))


async def address_at(store: MemoryStore, path: str) -> str | None:
    try:
        value = (await store.get(path)).value
    except NoSuchNodeError:
        return None
    return decode_registration(path, "b1", value, writable=True).address


async def until(store: MemoryStore, there: str, gone: str) -> None:
    """Return when the record is at one path alone."""
    async with asyncio.timeout(SOON):
        while True:
            if await address_at(store, there) and not await address_at(store, gone):
                return
            await asyncio.sleep(0.001)  # of virtual time


@asynccontextmanager
async def kept(store: MemoryStore, bookie: MemoryBookie) -> AsyncIterator[asyncio.Task[None]]:
    keeping = asyncio.create_task(registered(store, bookie).keep())
    try:
        await until(store, WRITABLE, READ_ONLY)
        yield keeping
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def test_the_record_moves_with_the_state_of_the_bookie_and_goes_with_it() -> None:
    store, bookie = PatchyStore(), MemoryBookie("b1")
    async with kept(store, bookie):
        for writable in (False, True, False):
            bookie.writable = writable
            places = (WRITABLE, READ_ONLY) if writable else (READ_ONLY, WRITABLE)
            await until(store, *places)
            assert await address_at(store, places[0]) == HERE.address
    assert await address_at(store, WRITABLE) is await address_at(store, READ_ONLY) is None


@pytest.mark.parametrize("applies", [False, True])
async def test_an_old_record_whose_deletion_fails_is_deleted_later(applies: bool) -> None:
    """Else clients would write to a bookie that takes nothing, until its session ends."""
    store, bookie = PatchyStore(), MemoryBookie("b1")
    async with kept(store, bookie):
        store.failing, store.failures, store.applies = WRITABLE, 3, applies
        bookie.writable = False
        await until(store, READ_ONLY, WRITABLE)
        store.failing, store.failures = READ_ONLY, 3
        bookie.writable = True
        await until(store, WRITABLE, READ_ONLY)


async def test_a_record_that_a_dead_process_left_in_the_other_state_is_removed() -> None:
    store, bookie = PatchyStore(), MemoryBookie("b1")
    dead = await store.open_session(3600.0)
    await dead.create(READ_ONLY, encode_registration(BookieAddress("b1", "127.0.0.1:999")))
    async with kept(store, bookie):
        pass
    await dead.close()


@pytest.mark.parametrize("writable", [True, False])
async def test_a_twin_in_any_state_ends_the_bookie(writable: bool) -> None:
    store, bookie, other = PatchyStore(), MemoryBookie("b1"), MemoryBookie("b1")
    other.writable = writable
    async with kept(store, bookie) as first:
        twin = BookieAddress("b1", "127.0.0.1:2000")
        second = asyncio.create_task(registered(store, other, twin).keep())
        try:
            async with asyncio.timeout(SOON):
                with pytest.raises(WrongBookieError, match=r"127\.0\.0\.1:2000"):
                    await first
            found = await address_at(store, WRITABLE if writable else READ_ONLY)
            assert found == twin.address
        finally:
            second.cancel()
            ended = await asyncio.gather(second, return_exceptions=True)
            assert not isinstance(ended[0], QuireError)

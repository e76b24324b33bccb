"""Ids and deletions of ledgers in Apache's metadata, as a bookie of quire asks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from quire.bookkeeper.layouts import INSTANCE, Layout
from quire.bookkeeper.serving.system import (
    BOOKIES,
    RecordedDeletions,
    RecordedIds,
    SameInstance,
    cluster_of,
    own_store,
    writable,
)
from quire.bookkeeper.uri import ApacheLedgers
from quire.errors import ConfigurationError, StoreWentBackError, WrongBookieError
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER
from quire.metastore.memory import MemoryStore
from quire.storage.identity.cookie import BookieCookie
from quire.storage.ledger_system import own_system
from quire.storage.maintenance.deletions import SameStore

ROOT = "/ledgers"
LAYOUT = Layout(ROOT)


class Scene:
    def __init__(self) -> None:
        self.store, self.own = MemoryStore(), MemoryStore()
        self.same = SameInstance(
            self.store, ROOT, SameStore(self.own, cluster_of("one")), cluster_of("one")
        )
        self.deletions = RecordedDeletions(self.store, LAYOUT, self.same)
        self.ids = RecordedIds(self.store, LAYOUT, self.same)

    async def begin(self, *ledgers: int) -> None:
        for each in ledgers:
            await self.store.create(LAYOUT.path(each), b"")


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    found = Scene()
    await found.store.create(f"{ROOT}/{INSTANCE}", b"one")
    await found.own.create(CLUSTER, Cluster(cluster_of("one")).encode())
    yield found
    await found.store.close()
    await found.own.close()


async def test_only_ledgers_without_a_record_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as here:
        await here.begin(1, 3, 10_001)
        drawn = iter([20_000, 20_001])
        monkeypatch.setattr(here.deletions._ids, "next", lambda: _soon(next(drawn)))
        held = [1, 2, 3, 4, 10_001, 10_002, 30_000]
        assert await here.deletions.deleted(held) == [2, 4, 10_002], "an id that was chosen stays"
        await here.store.delete(LAYOUT.path(3))
        assert await here.deletions.deleted(held) == [2, 3, 4, 10_002]


async def _soon(value: int) -> int:
    return value


async def test_a_store_that_went_back_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as here:
        drawn = iter([50, 7])
        monkeypatch.setattr(here.deletions._ids, "next", lambda: _soon(next(drawn)))
        assert await here.deletions.deleted([9]) == [9]
        with pytest.raises(StoreWentBackError):
            await here.deletions.deleted([5])


async def test_another_instance_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as here:
        monkeypatch.setattr(here.deletions._ids, "next", lambda: _soon(50))
        path = f"{ROOT}/{INSTANCE}"
        await here.store.put(path, b"two", (await here.store.get(path)).version)
        with pytest.raises(WrongBookieError):
            await here.deletions.deleted([9])
        with pytest.raises(WrongBookieError):
            await here.ids.check(0)


async def test_a_ledger_begins_when_its_record_is_there() -> None:
    async with scene() as here:
        assert not await here.ids.is_born(2**40)
        await here.begin(2**40)
        assert await here.ids.is_born(2**40)


async def test_a_disk_of_this_system_is_not_served_for_another() -> None:
    """Its collector would take every ledger for deleted."""
    async with scene() as here:
        cookie = BookieCookie("b1", cluster_of("one"))
        with pytest.raises(ConfigurationError, match="ledgers=bookkeeper"):
            async with own_system(here.own, cookie):
                pass


def test_the_own_records_of_bookies_have_a_place_of_their_own() -> None:
    uri = "zk://h1,h2/root?acl=open&ledgers=bookkeeper:/ledgers&write=true"
    found = writable(uri)
    assert found == ("zk://h1,h2/root?acl=open", ApacheLedgers(ROOT, write=True))
    assert own_store(*found) == f"zk://h1,h2/root/{BOOKIES}/ledgers?acl=open"
    assert own_store("zk://h1/", found[1]) == f"zk://h1/{BOOKIES}/ledgers"
    assert writable("zk://h1/quire") is None
    with pytest.raises(ConfigurationError, match="write=true"):
        writable("zk://h1/?ledgers=bookkeeper:/ledgers")

"""A bookie with TLS does not start with a metadata store that every client may change."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress

import pytest

from quire.errors import ConfigurationError, NodeExistsError, NoSuchNodeError
from quire.metastore.layout import CLIENTS, CURSORS, LEDGER_IDS, ledger_path
from quire.metastore.memory import MemoryStore
from quire.metastore.protection import Protected, Protection, exposed_records, protect_records
from quire.storage.serving.store_exposure import check_store


class Guarded(MemoryStore):
    """A store with an access control: which records are open."""

    def __init__(self, *servers: str, is_private: bool = True) -> None:
        super().__init__()
        self.servers: Sequence[str] = servers
        self.is_private = is_private
        self.open: set[str] = set()
        self.hidden: set[str] = set()
        self.protected: list[str] = []

    async def is_exposed(self, path: str) -> bool:
        if path in self.hidden:
            raise ConfigurationError("an ACL of others")
        await self.get(path)
        return path in self.open

    async def protect(self, path: str) -> None:
        await self.get(path)
        self.protected.append(path)
        self.open.discard(path)

    async def make_place(self, path: str) -> None:
        with suppress(NodeExistsError):
            await self.create(path, b"")


AWAY = "10.0.0.7:2181"


async def filled(*servers: str) -> Guarded:
    store = Guarded(*(servers or (AWAY,)))
    assert isinstance(store, Protected)
    await store.create(ledger_path(7), b"")
    await store.create(LEDGER_IDS, b"")
    return store


async def test_an_open_store_is_refused_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    store = await filled()
    await check_store(store, accepted=False)
    store.open = {"/quire/ledgers", LEDGER_IDS}
    with pytest.raises(ConfigurationError) as caught:
        await check_store(store, accepted=False)
    for part in (f"{LEDGER_IDS} and 1 other", "quire metadata protect", "--insecure-network"):
        assert part in str(caught.value)
    with caplog.at_level(logging.WARNING):
        await check_store(store, accepted=True)
    assert "quire metadata protect" in caplog.text


@pytest.mark.parametrize("servers", [("127.0.0.1:2181", "[::1]:2181"), ("localhost:2181",)])
async def test_a_store_of_this_machine_may_be_open(servers: tuple[str, ...]) -> None:
    store = await filled(*servers)
    store.open = {"/quire"}
    await check_store(store, accepted=False)
    store.servers = (*servers, AWAY)
    with pytest.raises(ConfigurationError):
        await check_store(store, accepted=False)


async def test_a_store_without_access_control_is_not_asked() -> None:
    store = MemoryStore()
    await check_store(store, accepted=False)
    assert await exposed_records(store) == []
    with pytest.raises(ConfigurationError, match="permissions of its files"):
        await protect_records(store)


async def test_records_are_protected_parents_first() -> None:
    store = await filled()
    for ledger in range(3000):
        with suppress(NodeExistsError):
            await store.create(ledger_path(ledger), b"")
    store.open = {"/quire", ledger_path(2999)}
    store.hidden = {LEDGER_IDS}
    before = await protect_records(store, is_dry=True)
    assert (before.exposed, store.protected) == (2, [])
    told: list[int] = []
    done = await protect_records(store, told.append)
    assert done == Protection(before.records + 2, 2), "two places for readers were made"
    assert told[-1] == done.records == len(set(store.protected)) == len(store.protected)
    assert {CLIENTS, CURSORS, ledger_path(2999)} < set(store.protected)
    at = {path: number for number, path in enumerate(store.protected)}
    assert all(at[path.rpartition("/")[0]] < at[path] for path in at if path != "/quire")


async def test_a_record_that_vanishes_meanwhile_is_passed_over() -> None:
    store = await filled()
    protect = store.protect

    async def late(path: str) -> None:
        if path == LEDGER_IDS:
            await store.delete(path)
        await protect(path)

    store.protect = late  # type: ignore[method-assign]
    await protect_records(store)
    with pytest.raises(NoSuchNodeError):
        await store.get(LEDGER_IDS)

"""quire's ledger code, unchanged, over a cluster with the habits of Apache's."""

from __future__ import annotations

import asyncio

import pytest

from quire.bookkeeper.layouts import SHORT_MAX, Form, Layout
from quire.bookkeeper.ledger_ids import LedgerIdSupply
from quire.bookkeeper.read_only import ReadOnlyStore
from quire.bookkeeper.records import open_records
from quire.entry import DigestKind
from quire.errors import (
    ConfigurationError,
    LedgerFencedError,
    UnauthorizedError,
    UnsupportedError,
)
from quire.ledger.quorum import Replication
from quire.metastore.memory import MemoryStore
from tests.support.apache_cluster import ROOT, ApacheClusterInMemory


@pytest.fixture
def apache() -> ApacheClusterInMemory:
    return ApacheClusterInMemory(4)


async def ensemble(apache: ApacheClusterInMemory, ledger: int) -> tuple[str, ...]:
    return (await apache.catalog.metadata(ledger)).last_fragment.bookies


@pytest.mark.parametrize("digest", [each for each in DigestKind if each != "hmac-sha256"])
async def test_what_was_written_is_read_and_followed(
    apache: ApacheClusterInMemory, digest: DigestKind
) -> None:
    catalog = apache.catalog
    writer = await catalog.create(Replication(4, 3, 2), password=b"pw", digest=digest)
    reader = await catalog.open_without_recovery(writer.ledger, password=b"pw")

    async def follow() -> list[bytes]:
        return [entry.payload async for entry in reader.follow(0)]

    following = asyncio.create_task(follow())
    wanted = [b"%d" % number for number in range(50)]
    for payload in wanted:
        await writer.append(payload)
        await asyncio.sleep(0.1)
    await writer.close()
    assert await following == wanted
    whole = await catalog.open(writer.ledger, password=b"pw")
    assert [entry.payload async for entry in whole.read(0, None)] == wanted
    with pytest.raises(UnauthorizedError):
        await catalog.open(writer.ledger, password=b"guess")


async def test_a_recovery_fences_the_writer_and_keeps_what_was_acknowledged(
    apache: ApacheClusterInMemory,
) -> None:
    writer = await apache.catalog.create()
    for number in range(20):
        await writer.append(b"%d" % number)
    other = await apache.client(apache.store)
    reader = await other.open(writer.ledger)
    assert [entry.entry async for entry in reader.read(0, None)] == list(range(20))
    with pytest.raises(LedgerFencedError):
        await writer.append(b"late")


@pytest.mark.parametrize("lists", [True, False])
async def test_a_bookie_that_fails_is_replaced_and_a_crash_loses_nothing(lists: bool) -> None:
    async with ApacheClusterInMemory(4, lists=lists, timeout=1.0) as apache:
        writer = await apache.catalog.create()
        for number in range(10):
            await writer.append(b"%d" % number)
        failing = (await ensemble(apache, writer.ledger))[0]
        apache.fakes[failing].mute = True
        await asyncio.gather(*(writer.append(b"%d" % number) for number in range(10, 30)))
        await asyncio.sleep(5)
        await asyncio.gather(*(writer.append(b"%d" % number) for number in range(30, 40)))
        assert failing not in await ensemble(apache, writer.ledger)
        for fake in apache.fakes.values():
            fake.crash()
        writer.abandon()
        apache.fakes[failing].mute = False
        await asyncio.sleep(5)
        reader = await apache.catalog.open(writer.ledger)
        found = [entry.payload async for entry in reader.read(0, None)]
        assert found[:40] == [b"%d" % number for number in range(40)]


async def test_deferred_entries_are_confirmed_by_a_force(apache: ApacheClusterInMemory) -> None:
    writer = await apache.catalog.create(deferred_sync=True)
    for number in range(30):
        await writer.append(b"%d" % number)
    await writer.force()
    for fake in apache.fakes.values():
        assert not any(held.deferred for held in fake.ledgers.values())
    await writer.close()
    reader = await apache.catalog.open(writer.ledger)
    assert len([entry async for entry in reader.read(0, None)]) == 30


async def test_a_client_that_only_reads_changes_nothing(apache: ApacheClusterInMemory) -> None:
    writer = await apache.catalog.create()
    await writer.append(b"one")
    await asyncio.sleep(1)
    reading = await apache.client(ReadOnlyStore(apache.store))
    reader = await reading.open_without_recovery(writer.ledger)
    assert [entry.payload async for entry in reader.read(0, None)] == [b"one"]
    before = (await apache.store.get(f"{ROOT}/00/0000/L0000")).version
    for call in (
        reading.open(writer.ledger),
        reading.create(),
        reading.delete(writer.ledger),
        reading.close_and_delete(writer.ledger),
    ):
        with pytest.raises(UnsupportedError, match="write=true"):
            await call
    assert (await apache.store.get(f"{ROOT}/00/0000/L0000")).version == before
    await writer.append(b"two")


async def test_bookies_that_change_over_are_followed(apache: ApacheClusterInMemory) -> None:
    assert apache.roster.writable() == ["b0", "b1", "b2", "b3"]
    await apache.register("b0", writable=False)
    await apache.store.delete(f"{ROOT}/available/b0")
    await asyncio.sleep(1)
    assert apache.roster.writable() == ["b1", "b2", "b3"]
    assert [each.writable for each in apache.roster.known()] == [False, True, True, True]
    await apache.register("b0")
    await apache.store.delete(f"{ROOT}/available/readonly/b0")
    await asyncio.sleep(1)
    assert apache.roster.writable() == ["b0", "b1", "b2", "b3"]


async def test_a_path_without_a_cluster_is_told() -> None:
    with pytest.raises(ConfigurationError, match=r"no /other/LAYOUT.*ledgers=bookkeeper:/ledgers"):
        await open_records(MemoryStore(), "/other")


async def test_ids_go_on_in_the_long_form_and_never_come_twice() -> None:
    store = MemoryStore()
    layout = Layout(ROOT, Form.HIERARCHICAL)
    supply = LedgerIdSupply(store, layout)
    assert [await supply.next() for _ in range(3)] == [0, 1, 2]
    assert await store.children(f"{ROOT}/idgen") == [], "the records that gave them are gone"
    await store.create(f"{ROOT}/idgen-long/HOB-0000000007", b"")
    other = LedgerIdSupply(store, layout)
    found = [await each.next() for each in (supply, other, supply)]
    assert found == [7 << 32, (7 << 32) + 1, (7 << 32) + 2]
    assert layout.path(found[0]).count("/") == 6
    assert found[0] > SHORT_MAX

"""Ledgers whose acks count zones: created, written, changed, relabelled, recovered.

Bookies a0, a1 … are in zone a, b0 … in zone b.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from quire.bookie import BookieAddress
from quire.errors import (
    AppendOutcomeUnknownError,
    ConfigurationError,
    InvalidRequestError,
    NotEnoughDomainsError,
)
from quire.labels import Labels
from quire.ledger.domains import Placement
from quire.ledger.metadata import LedgerMetadata, LedgerState
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.log.manifest.options import LogOptions
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, bookie_path
from quire.metastore.registration import encode_registration
from tests.support.memory_cluster import MemoryCluster, down, hung, slowly, until
from tests.support.virtual import virtually

ZONES = Placement.parse("durable=zone:2")


def place(bookie: str) -> Labels:
    return Labels(zone=bookie[0], host=bookie)


def scenario(
    names: str,
    body: Callable[[MemoryCluster], Awaitable[None]],
    options: LedgerOptions | None = None,
) -> None:
    async def main() -> None:
        async with MemoryCluster(0, options=options) as cluster:
            for bookie in names.split():
                await cluster.register(bookie, labels=place(bookie))
            await cluster.roster.refresh()
            await body(cluster)

    virtually(main)


async def metadata_of(cluster: MemoryCluster, ledger: int) -> LedgerMetadata:
    return await cluster.catalog.metadata(ledger)


def test_the_record_has_the_policy_and_the_places() -> None:
    async def body(cluster: MemoryCluster) -> None:
        async with await cluster.catalog.create(placement=ZONES) as writer:
            found = await metadata_of(cluster, writer.ledger)
            assert found.placement == ZONES == writer.info.placement
            bookies = found.last_fragment.bookies
            assert found.last_fragment.labels == tuple(map(place, bookies))
            assert {each.zone for each in found.last_fragment.labels} == {"a", "b"}
        plain = await cluster.catalog.create()
        assert (await metadata_of(cluster, plain.ledger)).last_fragment.labels == ()
        await plain.close()

    scenario("a0 a1 a2 b0", body)


def test_creation_names_the_zone_without_bookies() -> None:
    async def body(cluster: MemoryCluster) -> None:
        await cluster.unregister("b0")
        await until(lambda: "b0" not in cluster.roster.writable())
        with pytest.raises(NotEnoughDomainsError, match=r"in a \(3\); none in b:"):
            await cluster.catalog.create(placement=ZONES)
        with pytest.raises(NotEnoughDomainsError):
            await cluster.catalog.check_bookies(Replication(), ZONES)
        await cluster.catalog.check_bookies(Replication())
        with pytest.raises(ConfigurationError, match="4 domains need as many copies"):
            await cluster.catalog.create(placement=Placement.parse("require=host:4"))

    scenario("a0 a1 a2 b0", body)


def test_an_ack_waits_for_the_second_zone() -> None:
    async def body(cluster: MemoryCluster) -> None:
        async with await cluster.catalog.create(placement=ZONES) as writer:
            assert await writer.append(b"0") == 0
            cluster.bookies["b0"].before = down("add")
            with pytest.raises(AppendOutcomeUnknownError, match="needs bookies in 2 domains"):
                await writer.append(b"1")
            assert len(cluster.holders(writer.ledger, 1)) == 2, "two copies, in one zone"
            assert writer.last_confirmed == 0
            cluster.bookies["b0"].before = slowly(0)
            assert await writer.append(b"2") == 2
            found = await metadata_of(cluster, writer.ledger)
            assert len(found.fragments) == 1, "no spare in zone a took the place of b0"

    scenario("a0 a1 a2 a3 b0", body)


@pytest.mark.parametrize("delayed", [False, True])
def test_a_replacement_comes_from_the_zone_that_is_missing(delayed: bool) -> None:
    async def body(cluster: MemoryCluster) -> None:
        async with await cluster.catalog.create(placement=ZONES) as writer:
            for spare in ("a2", "a3", "b1"):
                await cluster.register(spare, labels=place(spare))
            await until(lambda: len(cluster.roster.writable()) == 6)
            cluster.bookies["b0"].before = down("add")
            assert await writer.append(b"0") == 0
            found = await metadata_of(cluster, writer.ledger)
            assert sorted(found.last_fragment.bookies) == ["a0", "a1", "b1"]
            assert found.last_fragment.labels == tuple(map(place, found.last_fragment.bookies))

    scenario("a0 a1 b0", body, LedgerOptions(delay_ensemble_change=delayed))


def test_a_label_that_changes_does_not_change_what_an_ack_means() -> None:
    async def body(cluster: MemoryCluster) -> None:
        async with await cluster.catalog.create(placement=ZONES) as writer:
            assert await writer.append(b"0") == 0
            path = bookie_path("a0")
            record = await cluster.store.get(path)
            moved = BookieAddress("a0", "a0:1", labels=Labels(zone="b", host="a0"))
            await cluster.store.put(path, encode_registration(moved), record.version)
            await until(lambda: cluster.roster.labels("a0").zone == "b")
            cluster.bookies["b0"].before = down("add")
            with pytest.raises(AppendOutcomeUnknownError):
                await writer.append(b"1")
            cluster.bookies["b0"].before = slowly(0)
            assert await writer.append(b"2") == 2

    scenario("a0 a1 b0", body)


def test_recovery_stays_unfinished_until_the_second_zone_takes_entries() -> None:
    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create(placement=ZONES)
        for entry in range(3):
            await writer.append(b"%d" % entry)
        writer.abandon()
        await writer.close()
        cluster.bookies["b0"].before = down()
        with pytest.raises(NotEnoughDomainsError, match="needs bookies in 2 domains"):
            await cluster.catalog.open(writer.ledger)
        found = await metadata_of(cluster, writer.ledger)
        assert found.state is LedgerState.IN_RECOVERY
        await cluster.register("b1", labels=place("b1"))
        await until(lambda: "b1" in cluster.roster.writable())
        async with await cluster.catalog.open(writer.ledger) as reader:
            assert [entry.payload async for entry in reader.read()] == [b"0", b"1", b"2"]
        found = await metadata_of(cluster, writer.ledger)
        assert place("b1") in found.last_fragment.labels
        assert "b1" in cluster.holders(writer.ledger, 2)

    scenario("a0 a1 a2 b0", body, LedgerOptions(request_timeout=0.5))


def test_full_quorum_gives_a_copy_to_a_bookie_of_the_same_zone() -> None:
    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create(placement=ZONES, full_quorum=True)
        await writer.append(b"0")
        await cluster.register("b1", labels=place("b1"))
        await cluster.register("a3", labels=place("a3"))
        await until(lambda: len(cluster.roster.writable()) == 5)
        cluster.bookies["b0"].before = hung("add", "list_entries")
        closing = asyncio.create_task(writer.append(b"1"))
        with suppress(AppendOutcomeUnknownError):
            await closing
        await writer.close()
        found = await metadata_of(cluster, writer.ledger)
        for fragment in found.fragments:
            assert {each.zone for each in fragment.labels} == {"a", "b"}
            assert [each.host for each in fragment.labels] == list(fragment.bookies)
        assert "b0" not in found.last_fragment.bookies

    scenario("a0 a1 b0", body, LedgerOptions(request_timeout=0.5))


def test_programs_of_level_1_are_never_given_a_placement() -> None:
    async def body(cluster: MemoryCluster) -> None:
        await cluster.store.create(CLUSTER, Cluster("c", level=1).encode())
        with pytest.raises(InvalidRequestError, match="needs feature level 2, the cluster is at 1"):
            await cluster.catalog.create(placement=ZONES)
        await (await cluster.catalog.create()).close()

    scenario("a0 a1 b0", body)


def test_the_placement_of_the_client_holds_where_nothing_else_is_said() -> None:
    async def body(cluster: MemoryCluster) -> None:
        writer = await cluster.catalog.create()
        assert writer.info.placement == ZONES
        anywhere = await cluster.catalog.create(placement=Placement())
        assert anywhere.info.placement == Placement()
        await writer.close()
        await anywhere.close()

    scenario("a0 a1 b0", body, LedgerOptions(placement=ZONES))


def test_a_log_stores_its_placement() -> None:
    options = LogOptions().with_stored({"placement": "durable=zone:2"})
    assert options.placement == ZONES
    with pytest.raises(ConfigurationError, match="durable=LEVEL:N"):
        LogOptions().with_stored({"placement": "durable=zone"})


def test_a_reader_asks_the_near_copy_and_then_another_zone() -> None:
    async def body(cluster: MemoryCluster) -> None:
        async with await cluster.catalog.create(placement=ZONES) as writer:
            for entry in range(4):
                await writer.append(b"%d" % entry)
        async with await cluster.catalog.open(writer.ledger) as reader:
            asked: list[str] = []
            for name, bookie in cluster.bookies.items():
                bookie.before = _noting(asked, name)
            for entry in range(4):
                await reader.read_entry(entry)
            assert asked == ["b0"] * 4, "whatever the entry"
            asked.clear()
            cluster.bookies["b0"].before = down("read")
            cluster.bookies["a1"].before = hung("read")
            assert (await reader.read_entry(1)).payload == b"1"
            assert asked == ["a0"]

    here = Labels(zone="b", host="elsewhere")
    scenario("a0 a1 b0", body, LedgerOptions(labels=here, speculative_delay=0.1))


def _noting(asked: list[str], name: str) -> Callable[[str, int], Awaitable[None]]:
    async def before(method: str, ledger: int) -> None:
        asked.append(name)

    return before

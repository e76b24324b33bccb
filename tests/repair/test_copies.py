"""Copies come from whoever of the write set has a good one."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import replace

import pytest

from quire.entry import DigestKind, Sealer, key_check
from quire.errors import BookieUnavailableError, RetryError, UnreadableError
from quire.labels import NOWHERE, Labels
from quire.ledger.domains import Candidate, Placement, Spread
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState, Replica
from quire.ledger.quorum import Replication
from quire.ledger.stored_records import StoredRecords
from quire.metastore.layout import LEDGER_IDS, ledger_path
from quire.metastore.memory import MemoryStore
from quire.metastore.record import encode_record
from quire.repair.assignments import Assignment, Assignments
from quire.repair.census import count
from quire.repair.copies import PeerCopies
from quire.repair.orders import StoredOrders
from quire.run import pack_run, split_run
from quire.storage.entries.doubtful import Horizon
from quire.testing.bookie import MemoryBookie

PASSWORD = b"secret"


class Peers:
    """Bookies in memory, as a roster."""

    def __init__(self) -> None:
        self.bookies = {name: MemoryBookie(name) for name in "abc"}

    def writable(self) -> list[str]:
        return sorted(self.bookies)

    def candidates(self) -> list[Candidate]:
        return [Candidate(bookie, self.labels(bookie)) for bookie in self.writable()]

    def labels(self, bookie: str) -> Labels:
        return NOWHERE

    def places(self) -> list[Labels]:
        return []

    def bookie(self, bookie: str) -> MemoryBookie:
        return self.bookies[bookie]


async def cluster(kind: DigestKind) -> tuple[MemoryStore, Peers, Sealer]:
    """A closed ledger of ten entries, which `b` and `c` hold."""
    store, peers, sealer = MemoryStore(), Peers(), Sealer(7, kind, PASSWORD)
    metadata = LedgerMetadata(
        *(7, Replication(3, 3, 2), kind, key_check(sealer.access_key)),
        *((Fragment(0, ("a", "b", "c")),), LedgerState.CLOSED, 9, 100),
    )
    await store.create(ledger_path(7), metadata.encode())
    run = pack_run(sealer.seal(entry, entry - 1, 100, b"%d" % entry) for entry in range(10))
    for name in "bc":
        await peers.bookies[name].add(7, sealer.access_key, run)
    return store, peers, sealer


def copies_for(
    store: MemoryStore, peers: Peers, assigned: Assignments | None = None, bookie: str = "a"
) -> PeerCopies:
    """Return the way of a bookie to the others."""
    records = StoredRecords(store, random.Random(0))
    orders = StoredOrders(store, records, bookie)
    return PeerCopies(records, peers, bookie, orders, assigned or Assignments(bookie))


@pytest.mark.parametrize("kind", list(DigestKind))
def test_the_entries_wanted_are_brought_as_they_are(kind: DigestKind) -> None:
    async def main() -> None:
        store, peers, sealer = await cluster(kind)
        copies = copies_for(store, peers)
        assert list((await copies.owed(7)).missing([(0, 3)], 0, 9)) == list(range(4, 10))
        run, entries = await copies.fetch(7, [4, 6, 7], 1 << 20)
        assert list(entries) == [4, 6, 7]
        for entry, frame in split_run(run):
            assert sealer.unseal(entry, frame).payload == b"%d" % entry

    asyncio.run(main())


def test_a_bad_copy_and_a_missing_one_are_passed_over() -> None:
    async def main() -> None:
        store, peers, sealer = await cluster(DigestKind.CRC32C)
        copies = copies_for(store, peers)
        frames = peers.bookies["b"].ledgers[7].frames
        frames[4] = frames[4][:-1] + b"x"
        del frames[5]
        for entry in (4, 5):
            run, entries = await copies.fetch(7, [entry, 6], 1 << 20)
            assert list(entries) == [entry, 6]
            assert sealer.unseal(entry, dict(split_run(run))[entry]).payload == b"%d" % entry
        frames = peers.bookies["c"].ledgers[7].frames
        del frames[4], frames[5]
        for entry in (4, 5):
            with pytest.raises(UnreadableError, match=f"entry {entry}"):
                await copies.fetch(7, [entry, 6], 1 << 20)

    asyncio.run(main())


@pytest.mark.parametrize("leaves", ["b", "c"])
def test_the_bookie_that_leaves_is_read_first(leaves: str) -> None:
    async def main() -> None:
        store, peers, _ = await cluster(DigestKind.CRC32C)
        asked: list[str] = []
        for name, each in peers.bookies.items():

            async def before(call: str, ledger: int, name: str = name) -> None:
                asked.append(name)

            each.before = before
        taken = Assignment(7, (Replica(0, "abc".index(leaves), leaves, "d"),))
        copies = copies_for(store, peers, Assignments("d", (taken,)), "d")
        for entry in range(10):
            await copies.fetch(7, [entry], 1 << 20)
        assert set(asked) == {leaves}, "the others have their clients to serve"
        asked.clear()
        peers.bookies[leaves] = MemoryBookie(leaves)  # lost meanwhile
        await copies.fetch(7, [4], 1 << 20)
        assert asked != []

    asyncio.run(main())


class Zones:
    """A closed ledger with acks in two zones: `a` and `c` hold it, `b` got none of it, and `d`
    has copied it and is asked for the place of `a`.
    """

    def __init__(self, store: MemoryStore, peers: Peers, sealer: Sealer) -> None:
        self.store, self.peers, self.sealer = store, peers, sealer
        self.asked: list[str] = []
        for name, each in peers.bookies.items():

            async def before(call: str, ledger: int, name: str = name) -> None:
                self.asked.append(name)

            each.before = before

    @classmethod
    async def open(cls) -> Zones:
        store, peers, sealer = await cluster(DigestKind.CRC32C)
        found = await store.get(ledger_path(7))
        metadata = LedgerMetadata.decode(ledger_path(7), found.value)
        labels = tuple(Labels(zone=each) for each in ("z0", "z0", "z1"))
        metadata = replace(
            metadata,
            fragments=(Fragment(0, ("a", "b", "c"), labels),),
            placement=Placement(durable=Spread("zone", 2)),
        )
        await store.put(ledger_path(7), metadata.encode(), found.version)
        peers.bookies["b"].ledgers.clear()
        return cls(store, peers, sealer)

    async def fill(self, bookie: str, size: int = 10) -> None:
        run = pack_run(self.sealer.seal(each, each - 1, 100, b"%d" % each) for each in range(size))
        await self.peers.bookies[bookie].add(7, self.sealer.access_key, run)

    async def take(self, zone: str) -> int:
        orders = StoredOrders(self.store, StoredRecords(self.store, random.Random(0)), "d")
        move = Replica(0, 0, "a", "d", Labels(zone=zone))
        copies = copies_for(
            self.store, self.peers, await orders.add([Assignment(7, (move,))]), bookie="d"
        )
        await copies.owed(7)
        self.asked.clear()
        try:
            return await copies.take_places(7)
        finally:
            self.left = len((await orders.read()).open)

    async def ensemble(self) -> tuple[str, ...]:
        found = await self.store.get(ledger_path(7))
        return LedgerMetadata.decode(ledger_path(7), found.value).last_fragment.bookies


def test_a_place_waits_for_a_bookie_that_lacks_entries_of_the_domains_of_acks() -> None:
    """`a` and `c` acknowledged in two zones; with `d` instead of `a`, only one zone had copies."""

    async def main() -> None:
        scene = await Zones.open()
        await scene.fill("a")
        for held in (0, 9):
            if held:
                await scene.fill("b", held)
            with pytest.raises(RetryError, match="ledger 7 gives no place away yet"):
                await scene.take("z1")
            assert await scene.ensemble() == ("a", "b", "c")
            assert scene.left, "it is tried again"
        await scene.fill("b")
        assert await scene.take("z1") == 1
        assert await scene.ensemble() == ("d", "b", "c")
        assert not scene.left

    asyncio.run(main())


def test_a_place_waits_for_the_list_of_a_bookie_that_does_not_answer() -> None:
    async def main() -> None:
        scene = await Zones.open()
        await scene.fill("b")
        heard = scene.peers.bookies["b"].before

        async def gone(call: str, ledger: int) -> None:
            raise BookieUnavailableError("b", "connection refused")

        scene.peers.bookies["b"].before = gone
        with pytest.raises(RetryError, match="no place away yet"):
            await scene.take("z1")
        scene.peers.bookies["b"].before = heard
        assert await scene.take("z1") == 1

    asyncio.run(main())


def test_a_list_is_worth_nothing_beside_a_record_that_changed() -> None:
    """The place of `c` is given to `c2` while lists are asked for: who holds it is not known."""

    async def main() -> None:
        scene = await Zones.open()
        await scene.fill("b")

        async def changes(call: str, ledger: int) -> None:
            found = await scene.store.get(ledger_path(7))
            metadata = LedgerMetadata.decode(ledger_path(7), found.value)
            if "c2" not in metadata.last_fragment.bookies:
                moved = metadata.with_replica(0, 2, "c2", Labels(zone="z1"))
                await scene.store.put(ledger_path(7), moved.encode(), found.version)

        scene.peers.bookies["c"].before = changes
        with pytest.raises(RetryError, match="no place away yet"):
            await scene.take("z1")
        assert await scene.ensemble() == ("a", "b", "c2")

    asyncio.run(main())


@pytest.mark.parametrize("zone", ["z0", "z2"])
def test_no_list_is_asked_for_where_a_place_lowers_no_domain(zone: str) -> None:
    async def main() -> None:
        scene = await Zones.open()
        assert await scene.take(zone) == 1
        assert scene.asked == []
        assert await scene.ensemble() == ("d", "b", "c")

    asyncio.run(main())


def test_the_census_names_what_a_bookie_may_have_had() -> None:
    async def main() -> None:
        store, _, sealer = await cluster(DigestKind.CRC32C)
        doubt = (7, key_check(sealer.access_key))
        horizon = Horizon(8)
        assert await count(store, "a", math.inf) == ([doubt], horizon)
        assert await count(store, "x", math.inf) == ([], horizon)
        await store.create(LEDGER_IDS, encode_record("ledger-ids", 1, {"next": 64}))
        assert (await count(store, "x", math.inf))[1] == Horizon(64), (
            "an id without a record is in doubt"
        )
        doubts, young = await count(store, "x", -1)
        assert (doubts, young) == ([], Horizon(64, ((0, 6), (8, 63)))), "a client may use them yet"
        assert (await count(store, "x", 0))[1] == Horizon(64, ((8, 63),))

    asyncio.run(main())

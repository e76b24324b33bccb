"""Copies come from whoever of the write set has a good one."""

from __future__ import annotations

import asyncio
import math
import random

import pytest

from quire.entry import DigestKind, Sealer, key_check
from quire.errors import UnreadableError
from quire.labels import NOWHERE, Labels
from quire.ledger.domains import Candidate
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

"""A copy is superfluous only if every bookie that the record names holds all of it, by proof."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from quire.entry import DigestKind, Sealer, key_check
from quire.errors import (
    BookieUnavailableError,
    StoreWentBackError,
    VersionConflictError,
    WrongBookieError,
)
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState, Replica
from quire.ledger.quorum import Replication
from quire.ledger.roster import Bookies
from quire.ledger.stored_records import StoredRecords
from quire.ledger.versioned import change_metadata
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, ledger_path
from quire.metastore.memory import MemoryStore
from quire.repair.assignments import Assignment, adopted
from quire.repair.orders import StoredOrders
from quire.repair.superfluous import SuperfluousCopies
from quire.run import pack_run
from quire.testing.bookie import MemoryBookie
from tests.repair.test_copies import Peers

ME = "z"
LEDGER = 7
END = 9
FIRST_ID = "c" * 32


class Scene:
    """A closed ledger of ten entries, striped over `a`, `b` and `c`, which hold all they owe."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.peers = Peers()
        self.records = StoredRecords(self.store, random.Random(0))
        self.sealer = Sealer(LEDGER, DigestKind.CRC32C, b"")
        self.copies = SuperfluousCopies(self.store, self.records, ME, FIRST_ID, self.reach)

    @asynccontextmanager
    async def reach(self) -> AsyncIterator[Bookies]:
        yield self.peers

    async def build(
        self, state: LedgerState = LedgerState.CLOSED, *bookies: str, level: int = 2
    ) -> Scene:
        await self.store.create(CLUSTER, Cluster(FIRST_ID, level=level).encode())
        is_closed = state is LedgerState.CLOSED
        self.metadata = LedgerMetadata(
            *(LEDGER, Replication(3, 2, 2), self.sealer.kind, key_check(self.sealer.access_key)),
            *((Fragment(0, bookies or ("a", "b", "c")),), state),
            *((END, 100) if is_closed else ()),
        )
        self.version = await self.store.create(ledger_path(LEDGER), self.metadata.encode())
        for name, bookie in self.peers.bookies.items():
            owed = [e for e in range(END + 1) if name in self.metadata.write_set(e)]
            run = pack_run(self.sealer.seal(entry, entry - 1, 100, b"x") for entry in owed)
            if owed:
                await bookie.add(LEDGER, self.sealer.access_key, run)
        return self

    async def verdict(self) -> tuple[list[int], list[int]]:
        """What is unnamed, and what is proved."""
        return await self.copies.unnamed([LEDGER]), await self.copies.proved([LEDGER])


def test_what_all_named_bookies_hold_is_proved_and_the_record_moves_on() -> None:
    async def main() -> None:
        scene = await Scene().build()
        assert await scene.verdict() == ([LEDGER], [LEDGER])
        after = await scene.records.read(LEDGER)
        assert (after.metadata, after.version > scene.version) == (scene.metadata, True)

    asyncio.run(main())


def test_a_change_decided_before_the_proof_cannot_name_the_bookie_after_it() -> None:
    """An earlier process of this bookie asked for the place, and the store takes it up late."""

    async def main() -> None:
        scene = await Scene().build()
        move = (Replica(0, 0, "a", ME),)
        late = adopted(scene.metadata, move)
        assert await scene.copies.proved([LEDGER]) == [LEDGER]
        with pytest.raises(VersionConflictError):
            await scene.records.change(late, scene.version)
        await change_metadata(scene.records, LEDGER, lambda newest: adopted(newest, move))
        assert await scene.verdict() == ([], [])

    asyncio.run(main())


def test_a_damaged_record_keeps_the_copies_of_its_ledger_alone() -> None:
    async def main() -> None:
        scene = await Scene().build()
        await scene.store.create(ledger_path(6), b"")
        assert await scene.copies.unnamed([6, LEDGER]) == [LEDGER]
        assert await scene.copies.proved([6, LEDGER]) == [LEDGER]

    asyncio.run(main())


@pytest.mark.parametrize("name", "abc")
def test_one_missing_copy_of_one_entry_is_enough_to_keep_all(name: str) -> None:
    async def main() -> None:
        scene = await Scene().build()
        frames = scene.peers.bookies[name].look(LEDGER).frames
        del frames[sorted(frames)[2]]
        assert await scene.verdict() == ([LEDGER], [])
        assert (await scene.records.read(LEDGER)).version == scene.version

    asyncio.run(main())


def test_a_named_bookie_that_does_not_answer_keeps_the_copies() -> None:
    class Away(MemoryBookie):
        async def list_entries(self, ledger: int, first: int = 0) -> list[tuple[int, int]]:
            raise BookieUnavailableError("b", "away")

    async def main() -> None:
        scene = await Scene().build()
        scene.peers.bookies["b"] = Away("b")
        scene.copies._timeout = 0.01
        assert await scene.verdict() == ([LEDGER], [])

    asyncio.run(main())


@pytest.mark.parametrize("state", [LedgerState.OPEN, LedgerState.IN_RECOVERY])
def test_a_ledger_that_is_not_closed_is_kept(state: LedgerState) -> None:
    async def main() -> None:
        scene = await Scene().build(state)
        assert await scene.verdict() == ([], [])

    asyncio.run(main())


def test_a_named_bookie_and_a_deleted_ledger_are_not_superfluous() -> None:
    async def main() -> None:
        scene = await Scene().build(LedgerState.CLOSED, "a", "b", ME)
        assert await scene.verdict() == ([], [])
        await scene.store.delete(ledger_path(LEDGER))
        assert await scene.verdict() == ([], [])

    asyncio.run(main())


def test_an_order_keeps_the_copies() -> None:
    async def main() -> None:
        scene = await Scene().build()
        orders = StoredOrders(scene.store, scene.records, ME)
        await orders.add([Assignment(LEDGER, (Replica(0, 0, "a", ME),))])
        assert await scene.verdict() == ([], [])
        await orders.clear()
        assert await scene.verdict() == ([LEDGER], [LEDGER])

    asyncio.run(main())


def test_a_change_during_the_proof_voids_it() -> None:
    async def main() -> None:
        scene = await Scene().build()
        listed = scene.peers.bookies["a"].list_entries

        async def meanwhile(ledger: int, first: int = 0) -> list[tuple[int, int]]:
            found = await scene.records.read(ledger)
            await scene.records.change(found.metadata, found.version)
            return await listed(ledger, first)

        scene.peers.bookies["a"].list_entries = meanwhile  # type: ignore[method-assign]
        assert await scene.copies.proved([LEDGER]) == []

    asyncio.run(main())


def test_the_word_of_another_store_does_not_count() -> None:
    async def main() -> None:
        scene = await Scene().build()
        await scene.verdict()
        found = await scene.store.get(CLUSTER)
        put_back = Cluster(FIRST_ID, incarnation=1, level=2)
        version = await scene.store.put(CLUSTER, put_back.encode(), found.version)
        with pytest.raises(StoreWentBackError, match="another incarnation"):
            await scene.copies.proved([LEDGER])
        await scene.store.put(CLUSTER, Cluster("d" * 32).encode(), version)
        with pytest.raises(WrongBookieError):
            await scene.copies.unnamed([LEDGER])

    asyncio.run(main())


def test_older_programs_could_not_have_the_ledger_again() -> None:
    async def main() -> None:
        scene = await Scene().build(level=1)
        assert await scene.copies.unnamed([LEDGER]) == []

    asyncio.run(main())


def test_a_store_that_is_put_back_during_the_proof_voids_it() -> None:
    async def main() -> None:
        scene = await Scene().build()
        listed = scene.peers.bookies["a"].list_entries

        async def meanwhile(ledger: int, first: int = 0) -> list[tuple[int, int]]:
            found = await scene.store.get(CLUSTER)
            after = Cluster(FIRST_ID, incarnation=1, level=2)
            await scene.store.put(CLUSTER, after.encode(), found.version)
            return await listed(ledger, first)

        scene.peers.bookies["a"].list_entries = meanwhile  # type: ignore[method-assign]
        with pytest.raises(StoreWentBackError):
            await scene.copies.proved([LEDGER])

    asyncio.run(main())

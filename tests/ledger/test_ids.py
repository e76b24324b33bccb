"""Ledger ids are given out once, whoever asks and whatever is lost."""

from __future__ import annotations

import asyncio
import random

import pytest

from quire.errors import (
    CorruptRecordError,
    NoSuchNodeError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    StoreWentBackError,
)
from quire.ledger.ids import (
    ATTEMPTS_MAX,
    BLOCK_MAX,
    BLOCK_SECONDS,
    Counter,
    LedgerIds,
    decode_counter,
    encode_counter,
)
from quire.metadata.adopt import adopt
from quire.metastore.cluster import Cluster, read_cluster
from quire.metastore.layout import CLUSTER, LEDGER_IDS, ledger_path
from quire.metastore.memory import MemoryStore
from quire.testing.sim.policy import Policy
from tests.support.faulty_store import FaultyStore
from tests.support.virtual import virtually


class CountingStore(MemoryStore):
    puts = 0
    lose = 0

    async def put(self, path: str, value: bytes, version: int) -> int:
        self.puts += 1
        changed = await super().put(path, value, version)
        if self.lose:
            self.lose -= 1
            raise StoreOutcomeUnknownError(path, "by order of the test")
        return changed


@pytest.mark.parametrize("seed", range(5))
def test_rivals_get_different_ids(seed: int) -> None:
    async def main() -> None:
        store = MemoryStore()

        async def client(number: int) -> list[int]:
            ids = LedgerIds(store, random.Random(number))
            return [await ids.next() for _ in range(40)]

        taken = await asyncio.gather(*(client(number) for number in range(8)))
        every = [ledger for each in taken for ledger in each]
        assert len(set(every)) == len(every) == 320
        assert min(every) == 0

    virtually(main, seed, Policy.WALK)


def test_one_client_called_concurrently() -> None:
    async def main() -> None:
        ids = LedgerIds(MemoryStore(), random.Random(0))
        assert sorted(await asyncio.gather(*(ids.next() for _ in range(50)))) == list(range(50))

    virtually(main)


def test_blocks_grow_so_that_the_counter_is_rarely_met() -> None:
    async def main() -> None:
        store = CountingStore()
        ids = LedgerIds(store, random.Random(0))
        first = await ids.next()
        assert (first, store.puts) == (0, 0)
        for _ in range(126 + 64):
            await ids.next()
        assert store.puts == 7
        assert BLOCK_MAX == 64

    virtually(main)


def test_an_unknown_outcome_loses_ids_but_never_repeats_one() -> None:
    async def main() -> None:
        store = CountingStore()
        ids = LedgerIds(store, random.Random(0))
        seen = [await ids.next()]
        store.lose = 2
        seen += [await ids.next() for _ in range(10)]
        assert len(set(seen)) == 11

    virtually(main)


def test_it_gives_up_in_the_end() -> None:
    async def main() -> None:
        store = CountingStore()
        ids = LedgerIds(store, random.Random(0))
        await ids.next()
        store.lose = ATTEMPTS_MAX
        with pytest.raises(StoreUnavailableError, match=r"attempts: outcome of .* is unknown"):
            await ids.next()
        await ids.next()

    virtually(main)


def test_a_damaged_counter_is_not_believed() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.create(LEDGER_IDS, b"17")
        with pytest.raises(CorruptRecordError, match=LEDGER_IDS):
            await LedgerIds(store, random.Random(0)).next()

    virtually(main)


def test_a_block_is_thrown_away_an_hour_after_it_was_drawn() -> None:
    """A repaired bookie takes old ids without a record for those of deleted ledgers."""

    async def main() -> None:
        store = MemoryStore()
        ids = LedgerIds(store, random.Random(1))
        drawn = [await ids.next() for _ in range(9)]
        await asyncio.sleep(BLOCK_SECONDS / 2)
        drawn.append(await ids.next())
        assert drawn == list(range(10))
        await asyncio.sleep(BLOCK_SECONDS)
        assert await ids.next() == 15, "the block 7 to 14 is old"

    virtually(main)


def test_a_counter_is_never_made_beside_existing_ledgers() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.create(ledger_path(1007), b"a record")
        with pytest.raises(StoreWentBackError, match=r"ledger 1007, and no counter.*adopt"):
            await LedgerIds(store, random.Random(0)).next()
        with pytest.raises(NoSuchNodeError):
            await store.get(LEDGER_IDS)

    virtually(main)


def test_a_lost_counter_is_noticed_when_every_ledger_was_deleted() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.create(CLUSTER, Cluster("c").encode())
        assert await LedgerIds(store, random.Random(0)).next() == 0
        assert (await read_cluster(store)).counted
        await store.delete(LEDGER_IDS)
        with pytest.raises(
            StoreWentBackError, match=r"given ledger ids out, and no counter.*adopt"
        ):
            await LedgerIds(store, random.Random(1)).next()
        with pytest.raises(NoSuchNodeError):
            await store.get(LEDGER_IDS)
        first = (await adopt(store)).first_id
        assert await LedgerIds(store, random.Random(2)).next() == first > 0

    virtually(main)


def test_an_adoption_notes_the_counter_of_an_older_cluster() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.create(CLUSTER, Cluster("c").encode())
        await store.create(LEDGER_IDS, encode_counter(7))
        await adopt(store)
        await store.delete(LEDGER_IDS)
        with pytest.raises(StoreWentBackError, match="no counter"):
            await LedgerIds(store, random.Random(0)).next()

    virtually(main)


@pytest.mark.parametrize("seed", range(5))
def test_rivals_that_make_the_counter_of_a_cluster_get_different_ids(seed: int) -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.create(CLUSTER, Cluster("c").encode())
        rivals = [LedgerIds(store, random.Random(number)) for number in range(8)]
        assert len(set(await asyncio.gather(*(ids.next() for ids in rivals)))) == 8

    virtually(main, seed, Policy.WALK)


def test_a_counter_that_was_made_between_two_looks_is_taken() -> None:
    """Found by the simulator (service, seed 68): two clients met an empty store. The slower one
    saw no counter, and then the first ledger of the faster one.
    """

    async def main() -> None:
        inner = MemoryStore()
        store = FaultyStore(inner)

        in_order = store.before

        async def make_a_ledger(method: str, path: str) -> None:
            if method == "children":
                store.before = in_order
                assert await LedgerIds(inner, random.Random(2)).next() == 0
                await inner.create(ledger_path(0), b"")

        store.before = make_a_ledger
        assert await LedgerIds(store, random.Random(1)).next() == 1

    virtually(main)


def test_a_withheld_counter_gives_out_nothing() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.create(LEDGER_IDS, encode_counter(7, is_withheld=True))
        with pytest.raises(StoreWentBackError, match="quire metadata adopt"):
            await LedgerIds(store, random.Random(0)).next()
        assert decode_counter((await store.get(LEDGER_IDS)).value) == Counter(7, True)

    virtually(main)


def test_an_old_block_is_gone_although_no_new_one_was_drawn() -> None:
    async def main() -> None:
        inner = MemoryStore()
        store = FaultyStore(inner)
        ids, others = LedgerIds(store, random.Random(1)), LedgerIds(inner, random.Random(2))
        taken = [await ids.next() for _ in range(5)]
        in_order = store.before

        async def be_away(method: str, path: str) -> None:
            raise StoreUnavailableError("memory", "away")

        async def hang(method: str, path: str) -> None:
            await asyncio.Event().wait()

        for before in (be_away, hang):
            await asyncio.sleep(BLOCK_SECONDS + 1)
            others_last = [await others.next() for _ in range(BLOCK_MAX)][-1]
            store.before = before
            with pytest.raises((StoreUnavailableError, TimeoutError)):
                await asyncio.wait_for(ids.next(), 60)
            store.before = in_order
            taken.append(await ids.next())
            assert taken[-1] > others_last, "it was drawn now"
        assert len({*taken}) == len(taken)

    virtually(main)


def test_a_store_that_was_put_back_gives_out_nothing_of_an_old_block() -> None:
    async def main() -> None:
        store = MemoryStore()
        ids = LedgerIds(store, random.Random(1))
        for _ in range(5):
            await ids.next()
        await asyncio.sleep(BLOCK_SECONDS + 1)
        found = await store.get(LEDGER_IDS)
        await store.put(LEDGER_IDS, encode_counter(8, is_withheld=True), found.version)
        for _ in range(2):
            with pytest.raises(StoreWentBackError):
                await ids.next()

    virtually(main)

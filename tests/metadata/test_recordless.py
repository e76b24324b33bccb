"""Ledgers that bookies hold and the store does not know."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quire.metadata.recordless import Recordless, find_recordless, joined, without_records
from quire.metastore.layout import ledger_path
from tests.support.memory_cluster import MemoryCluster, down
from tests.support.virtual import virtually

IDS = st.frozensets(st.integers(0, 12))


@given(st.dictionaries(st.sampled_from(["b0", "b1", "b2"]), IDS), IDS)
def test_what_is_held_and_not_recorded_is_found(
    held: dict[str, frozenset[int]], recorded: frozenset[int]
) -> None:
    ranges = {bookie: joined((each, each) for each in ids) for bookie, ids in held.items()}
    found = without_records(ranges, sorted(recorded))
    lacking = sorted(frozenset().union(*held.values()) - recorded)
    assert list(found) == lacking
    for ledger, bookies in found.items():
        assert bookies == sorted(bookie for bookie, ids in held.items() if ledger in ids)


def test_bookies_name_them_with_their_entries() -> None:
    async def main() -> None:
        async with MemoryCluster(4) as cluster:
            writers = [await cluster.catalog.create() for _ in range(3)]
            for writer in writers:
                for _ in range(3):
                    await writer.append(b"entry")
                await writer.close()
            kept, lost, also_lost = (writer.ledger for writer in writers)
            for ledger in (lost, also_lost):
                await cluster.store.delete(ledger_path(ledger))
            holders = cluster.holders(lost, 0)
            found = await find_recordless(cluster.roster, cluster.catalog, 1.0)
            assert [each.ledger for each in found.ledgers] == [lost, also_lost]
            assert found.ledgers[0] == Recordless(lost, holders, [(0, 2)])
            assert found.silent == {}
            cluster.bookies[holders[0]].before = down("list_ledgers")
            found = await find_recordless(cluster.roster, cluster.catalog, 1.0)
            assert list(found.silent) == [holders[0]]
            assert found.ledgers[0] == Recordless(lost, holders[1:], [(0, 2)])
            assert await cluster.catalog.list() == [kept]

    virtually(main)


def test_a_long_list_comes_in_pieces() -> None:
    async def main() -> None:
        async with MemoryCluster(3) as cluster:
            for number in range(5):
                writer = await cluster.catalog.create()
                await writer.append(b"entry")
                await writer.close()
                if number % 2 == 0:
                    await cluster.store.delete(ledger_path(writer.ledger))
            for bookie in cluster.bookies.values():
                bookie.ranges_max = 1
            found = await find_recordless(cluster.roster, cluster.catalog, 1.0)
            assert len(found.ledgers) == 3

    virtually(main)


def test_a_bookie_that_was_not_started_yet_is_named() -> None:
    """Right after a restore: what it holds is not known, and may be all that there is."""

    async def main() -> None:
        async with MemoryCluster(3) as cluster:
            members = [*cluster.bookies, "late"]
            found = await find_recordless(cluster.roster, cluster.catalog, 1.0, members)
            assert found.silent == {"late": "it is not registered"}

    virtually(main)

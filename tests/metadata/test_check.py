"""What a comparison of a ledger with its bookies comes to."""

from __future__ import annotations

from quire.entry import DigestKind
from quire.errors import BookieUnavailableError, QuireError
from quire.ledger.inventory import compare
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from quire.ledger.ranges import Ranges
from quire.metadata.check import check_ledgers, judge
from quire.metastore.layout import ledger_path
from tests.support.memory_cluster import MemoryCluster
from tests.support.virtual import virtually

BOOKIES = ("b0", "b1", "b2")
OPEN = LedgerMetadata(7, Replication(3, 3, 2), DigestKind.CRC32C, "k", (Fragment(0, BOOKIES),))
CLOSED = OPEN.closed(4, 50)
GONE = BookieUnavailableError("b2", "down")


def found(metadata: LedgerMetadata, *answers: Ranges | QuireError, other: Ranges = ()) -> object:
    said = dict(zip(BOOKIES, answers, strict=True))
    finding = judge(compare(metadata, {**said, "b9": other}))
    return finding and finding[1:5]


def test_a_whole_ledger_is_nothing_to_tell() -> None:
    assert found(CLOSED, [(0, 4)], [(0, 4)], [(0, 4)]) is None
    assert found(OPEN, [(0, 9)], [], []) is None, "its last fragment is not compared"


def test_short_and_lost_entries_are_told() -> None:
    assert found(CLOSED, [(0, 4)], [(0, 2)], [(0, 2)]) == ([], [(3, 4)], None, [])
    assert found(CLOSED, [(0, 2)], [(0, 2)], [(0, 2)]) == ([(3, 4)], [], None, [])


def test_an_entry_that_only_a_silent_bookie_may_have_is_lost_as_far_as_is_known() -> None:
    assert found(CLOSED, [(0, 2)], [(0, 2)], GONE) == ([(3, 4)], [(0, 2)], None, ["b2"])


def test_entries_beyond_the_recorded_end_are_told_whichever_bookie_holds_them() -> None:
    whole: Ranges = [(0, 4)]
    assert found(CLOSED, whole, whole, whole, other=[(3, 6)]) == ([], [], 6, [])
    assert found(CLOSED, whole, [(0, 5)], whole) == ([], [], 5, [])


def test_a_damaged_record_is_told_and_hides_no_other_ledger() -> None:
    async def main() -> None:
        async with MemoryCluster(3) as cluster:
            for _ in range(3):
                writer = await cluster.catalog.create()
                await writer.append(b"entry")
                await writer.close()
            path = ledger_path(0)
            await cluster.store.put(path, b"", (await cluster.store.get(path)).version)
            cluster.bookies[cluster.holders(2, 0)[0]].ledgers[2].frames.clear()
            found = [each async for each in check_ledgers(cluster.roster, cluster.catalog, 1.0)]
            assert [done for done, _, _ in found] == [1, 2, 3]
            damaged, sound, short = (each for _, _, each in found)
            assert damaged is not None
            assert path in damaged.damage
            assert damaged.is_loss
            assert sound is None
            assert short is not None
            assert short.short == [(0, 0)]

    virtually(main)

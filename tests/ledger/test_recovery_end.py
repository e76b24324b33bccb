"""Where recovery ends a ledger, by who holds what (numbers: tests/scenarios/README.md)."""

from __future__ import annotations

from typing import Any

import pytest

from quire.entry import NO_ENTRY, LedgerId
from quire.errors import EntryUnknownError, LedgerFencedError, UnreadableError
from quire.ledger.metadata import LedgerState
from quire.ledger.quorum import Replication
from quire.testing.bookie import MemoryBookie
from tests.ledger.recovering import scenario
from tests.support.memory_cluster import MemoryCluster, down, hung
from tests.support.planted_ledger import PASSWORD, PlantedLedger


def test_an_empty_ledger_closes_empty() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        assert await planted.read_all() == []
        assert (await planted.metadata()).state is LedgerState.CLOSED

    scenario(3, body)


def test_what_was_acked_stays_and_every_copy_is_mended() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1)
        await planted.add("b0 b2", 2, 3, lac=1)
        assert await planted.read_all() == [0, 1, 2, 3]
        assert cluster.holders(planted.ledger, 3) == ["b0", "b1", "b2"]

    scenario(3, body)


def test_a_single_copy_that_nobody_acked_is_resurrected_for_good() -> None:
    """The writer may have told its caller nothing, or a time-out: the outcome was unknown."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b2", 0)
        cluster.bookies["b0"].before = down("read")
        assert await planted.read_all() == [0]
        cluster.bookies["b0"].before = down("nothing")
        cluster.bookies["b2"].before = down()
        assert await planted.read_all() == [0]

    scenario(3, body)


def test_a_single_copy_that_enough_others_deny_is_gone_for_good() -> None:
    """The verdict falls at the threshold, so who answers first decides which of the two it is."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b2", 0)
        cluster.bookies["b2"].before = hung("read")
        assert await planted.read_all() == []
        cluster.bookies["b2"].before = down("nothing")
        assert await planted.read_all() == []

    scenario(3, body)


def test_headers_written_back_carry_the_lac_recovery_started_from() -> None:
    """L7: an advancing LAC would announce what a losing recovery merely reached."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", *range(6), lac=2)
        assert await planted.read_all() == list(range(6))
        assert [planted.held("b1", entry).lac for entry in range(6)] == [-1, 0, 1, 2, 2, 2]

    scenario(3, body)


def test_the_length_is_true_when_nothing_was_recovered() -> None:
    """The header that proves the LAC is of an entry beyond the end, or there is none."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, 2)
        packet = planted.sealer.seal_lac(2)
        for bookie in cluster.bookies.values():
            await bookie.write_lac(planted.ledger, planted.sealer.access_key, packet)
        assert await planted.read_all() == [0, 1, 2]
        assert (await planted.metadata()).length == 30

    scenario(3, body)


def test_an_empty_last_ensemble_leaves_older_fragments_alone() -> None:
    """15, TLA D2, #2615: bookies of the last ensemble that saw nothing answer LAC −1."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"), (3, "b3 b4 b5"))
        await planted.add("b0 b1 b2", 0, 1, 2)
        cluster.bookies["b0"].before = down("add")
        assert await planted.read_all() == [0, 1, 2]
        metadata = await planted.metadata()
        assert [fragment.first for fragment in metadata.fragments] == [0, 3]
        assert metadata.length == 30

    scenario(6, body)


def test_a_silent_bookie_is_fenced_by_the_reads_before_its_negative_counts() -> None:
    """14, TLA D1, #2614: the entry is on b0 alone; b2 missed the first fence; b0 then falls silent.

    Were b2's negative taken without a fence, the ledger would be closed empty and the old
    writer could still reach b2, have its second ack, and confirm the entry.
    """

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0", 0)
        b0, b2 = cluster.bookies["b0"], cluster.bookies["b2"]
        b0.before, b2.before = down("read"), hung("read_tail")
        assert await planted.read_all() == []
        with pytest.raises(LedgerFencedError):
            await planted.add("b2", 0)
        with pytest.raises(LedgerFencedError):
            await planted.add("b1", 0)

    scenario(3, body)


def test_a_gap_ends_the_ledger() -> None:
    """18: 14 is there, 10 to 13 are not."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", *range(10), 14)
        assert await planted.read_all() == list(range(10))

    scenario(3, body)


def test_a_bookie_with_a_gap_is_asked_for_the_missing_entry_alone() -> None:
    """It returned 1, which says nothing binding about 0: it may be one that lost entries."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0, 1)
        await planted.add("b2", 1)
        cluster.bookies["b0"].before = down("read")
        cluster.bookies["b1"].before = down("read")
        with pytest.raises(UnreadableError, match="absent"):
            await planted.read_all()

    scenario(3, body)


def test_a_bookie_that_lost_an_entry_does_not_deny_it_by_returning_the_next() -> None:
    """b0 and b1 acked 0; b0 is away, and b1 lost it and knows that it lost something."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0", 0, 1)
        await planted.add("b1", 1)
        b1, read = cluster.bookies["b1"], cluster.bookies["b1"].read

        async def limbo(ledger: LedgerId, first: int, last: int, **more: Any) -> bytes:
            if last == 0:
                raise EntryUnknownError(ledger, first, "the disk was damaged")
            return await read(ledger, first, last, **more)

        b1.read = limbo  # type: ignore[method-assign]
        cluster.bookies["b0"].before = down("read")
        with pytest.raises(UnreadableError, match="entry 0"):
            await planted.read_all()
        cluster.bookies["b0"].before = down("nothing")
        assert await planted.read_all() == [0, 1]

    scenario(3, body)


@pytest.mark.parametrize(
    ("ensemble", "write_quorum", "ack_quorum"),
    [(3, 3, 2), (3, 2, 2), (5, 3, 2), (5, 4, 2), (4, 4, 3), (5, 5, 3), (3, 1, 1), (2, 2, 1)],
)
def test_exactly_enough_answers_are_enough(
    ensemble: int, write_quorum: int, ack_quorum: int
) -> None:
    """20: with Qa − 1 of any Qw bookies gone, every acked entry is found; striped or not."""

    async def body(cluster: MemoryCluster) -> None:
        replication = Replication(ensemble, write_quorum, ack_quorum)
        names = [f"b{number}" for number in range(ensemble)]
        planted = await PlantedLedger.create(cluster, (0, " ".join(names)), replication=replication)
        for entry in range(12):
            acked = [names[p] for p in replication.write_set(entry)[-ack_quorum:]]
            await planted.add(" ".join(acked), entry, lac=entry // 2)
        for number in range(ack_quorum - 1):
            cluster.bookies[names[number]].before = down()
        assert await planted.read_all() == list(range(12))

    scenario(ensemble + 2, body)


def test_a_long_tail_is_recovered_in_many_batches() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        big = b"x" * 300_000
        for entry in range(20):
            frame = planted.sealer.seal(entry, NO_ENTRY, 300_000 * (entry + 1), big)
            run = len(frame).to_bytes(4, "big") + frame
            for bookie in ("b0", "b1"):
                await cluster.bookies[bookie].add(7, planted.sealer.access_key, run)
        reader = await cluster.catalog.open(7, password=PASSWORD)
        assert (reader._metadata.last_entry, reader._metadata.length) == (19, 6_000_000)
        assert cluster.holders(7, 0) == cluster.holders(7, 19) == ["b0", "b1", "b2"]

    scenario(3, body)


def is_fenced(bookie: MemoryBookie) -> bool:
    return bookie.look(7).fenced


def test_all_reachable_bookies_of_the_last_ensemble_are_asked_to_fence() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.read_all()
        assert all(is_fenced(cluster.bookies[name]) for name in ("b0", "b1", "b2"))

    scenario(3, body)

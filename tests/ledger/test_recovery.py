"""Recovery on ledgers laid out by hand: every known corner of the protocol, step by step.

The numbers are the scenarios of BookKeeper's own tests and issues; each name says what must hold.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from quire.entry import NO_ENTRY, LedgerId
from quire.errors import (
    BookieUnavailableError,
    CorruptEntryError,
    CorruptRecordError,
    EntryUnknownError,
    LedgerFencedError,
    NotEnoughBookiesError,
    QuireError,
    RetryError,
    UnauthorizedError,
    UnreadableError,
)
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from tests.sim.policy import Policy
from tests.support.memory_bookie import MemoryBookie
from tests.support.memory_cluster import Hook, MemoryCluster, down, hung, slowly
from tests.support.planted_ledger import PASSWORD, PlantedLedger
from tests.support.virtual import virtually


def scenario(size: int, body: Callable[[MemoryCluster], Awaitable[None]], seed: int = 0) -> None:
    """Run a scenario on virtual time in a cluster of `size` bookies."""

    async def main() -> None:
        async with MemoryCluster(size, seed=seed) as cluster:
            await body(cluster)

    virtually(main, seed, Policy.WALK if seed else Policy.INTERLEAVE)


def failing(error: Exception, *methods: str) -> Hook:
    async def before(method: str, ledger: LedgerId) -> None:
        if method in methods:
            raise error

    return before


def after_calls(method: str, count: int, action: Callable[[], Awaitable[None]]) -> Hook:
    """A hook that acts once, before the call number `count` (from 1) of a method."""
    seen = 0

    async def before(called: str, ledger: LedgerId) -> None:
        nonlocal seen
        seen += called == method
        if called == method and seen == count:
            await action()

    return before


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


@pytest.mark.parametrize("method", ["read_tail", "read", "add", None])
@pytest.mark.parametrize("bookie", ["b0", "b1", "b2"])
def test_a_hung_bookie_blocks_nothing(bookie: str, method: str | None) -> None:
    """5, #1067: with coverage met, nobody waits for the last answer."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, 2, lac=1)
        cluster.bookies[bookie].before = hung(*([method] if method else []))
        assert await planted.read_all() == [0, 1, 2]
        assert asyncio.get_running_loop().time() < cluster.options.request_timeout / 2

    scenario(4, body)


def test_when_all_are_down_the_ledger_stays_in_recovery() -> None:
    """9: and can be recovered later."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)
        for bookie in cluster.bookies.values():
            bookie.before = down()
        with pytest.raises(UnreadableError, match="0 of 3 bookies"):
            await planted.read_all()
        assert (await planted.metadata()).state is LedgerState.IN_RECOVERY
        for bookie in cluster.bookies.values():
            bookie.before = down("nothing")
        assert await planted.read_all() == [0]

    scenario(3, body)


UNUSABLE = [
    BookieUnavailableError("b", "by order of the test"),
    EntryUnknownError(7, 1, "may have been lost"),
    CorruptEntryError(7, 1, "its copy is damaged"),
    UnauthorizedError(7),
]


@pytest.mark.parametrize("error", UNUSABLE, ids=lambda error: type(error).__name__)
def test_an_error_is_never_a_negative(error: QuireError) -> None:
    """#2908: one explicit negative and two bookies that cannot say do not end a ledger."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)
        for bookie in ("b0", "b1"):
            cluster.bookies[bookie].before = failing(error, "read")
        with pytest.raises(UnreadableError, match="unknown"):
            await planted.read_all()
        metadata = await planted.metadata()
        assert metadata.state is LedgerState.IN_RECOVERY

    scenario(3, body)


def test_a_hung_quorum_fails_recovery_at_the_deadline() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        for bookie in ("b0", "b1"):
            cluster.bookies[bookie].before = hung()
        with pytest.raises(UnreadableError):
            await planted.read_all()
        assert asyncio.get_running_loop().time() == cluster.options.request_timeout

    scenario(3, body)


def test_a_damaged_copy_is_replaced_by_a_good_one() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, 2)
        planted.corrupt("b0", 1)
        planted.corrupt("b1", 1)
        assert await planted.read_all() == [0, 1, 2]
        assert planted.held("b0", 1).entry == 1

    scenario(3, body)


def test_damaged_copies_do_not_end_the_ledger() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0, 1)
        await planted.add("b2", 0)
        planted.corrupt("b0", 1)
        planted.corrupt("b1", 1)
        with pytest.raises(UnreadableError):
            await planted.read_all()
        assert (await planted.metadata()).state is LedgerState.IN_RECOVERY

    scenario(3, body)


def test_a_damaged_tail_proves_nothing() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)
        planted.corrupt("b0", 0)
        planted.corrupt("b1", 0)
        with pytest.raises(UnreadableError, match="1 of 3"):
            await planted.read_all()

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
        assert (reader.metadata.last_entry, reader.metadata.length) == (19, 6_000_000)
        assert cluster.holders(7, 0) == cluster.holders(7, 19) == ["b0", "b1", "b2"]

    scenario(3, body)


# --- bookies that fail while recovery writes ------------------------------------------------


def test_reading_is_not_enough_when_nothing_can_be_written() -> None:
    """10."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)
        for bookie in cluster.bookies.values():
            bookie.before = down("add")
        with pytest.raises(NotEnoughBookiesError):
            await planted.read_all()
        assert (await planted.metadata()).state is LedgerState.IN_RECOVERY

    scenario(3, body)


@pytest.mark.parametrize("hook", [down("add"), hung("add")], ids=["down", "hung"])
def test_without_a_spare_the_ack_quorum_suffices(hook: Hook) -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0)
        cluster.bookies["b2"].before = hook
        assert await planted.read_all() == [0]
        assert [each.first for each in (await planted.metadata()).fragments] == [0]

    scenario(3, body)


def test_a_failed_bookie_is_replaced_in_the_closing_change() -> None:
    """13: the fragment at the first entry recovered is replaced when it starts there."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0, 1)
        cluster.bookies["b1"].before = down("add")
        assert await planted.read_all() == [0, 1]
        assert (await planted.metadata()).fragments == (Fragment(0, ("b0", "b3", "b2")),)
        assert cluster.holders(7, 1) == ["b0", "b1", "b2", "b3"]

    scenario(4, body)


def test_a_fragment_is_appended_where_confirmed_entries_lie_before() -> None:
    """13."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, 2, 3, lac=1)
        cluster.bookies["b2"].before = down("add")
        assert await planted.read_all() == [0, 1, 2, 3]
        assert (await planted.metadata()).fragments == (
            Fragment(0, ("b0", "b1", "b2")),
            Fragment(2, ("b0", "b1", "b3")),
        )

    scenario(4, body)


def test_two_bookies_that_fail_on_one_entry_make_one_fragment() -> None:
    """13."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, lac=0)
        for bookie in ("b0", "b1"):
            cluster.bookies[bookie].before = down("add")
        assert await planted.read_all() == [0, 1]
        fragments = (await planted.metadata()).fragments
        assert [each.first for each in fragments] == [0, 1]
        assert sorted(fragments[1].bookies) == ["b2", "b3", "b4"]

    scenario(5, body)


def test_a_spare_that_fails_too_is_replaced_in_turn() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)
        for bookie in ("b0", "b3", "b4"):
            cluster.bookies[bookie].before = down("add")
        assert await planted.read_all() == [0]
        fragments = (await planted.metadata()).fragments
        assert [sorted(each.bookies) for each in fragments] == [["b1", "b2", "b5"]]

    scenario(6, body)


def test_a_mended_ensemble_stays_in_memory_until_the_end() -> None:
    """TLA: written earlier, a second recovery would ask bookies that never had the entries."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1)
        seen: list[LedgerMetadata] = []

        async def look() -> None:
            seen.append(await planted.metadata())

        cluster.bookies["b2"].before = down("add")
        cluster.bookies["b3"].before = after_calls("add", 1, look)
        assert await planted.read_all() == [0, 1]
        assert [each.fragments for each in seen] == [(Fragment(0, ("b0", "b1", "b2")),)]
        assert (await planted.metadata()).fragments == (Fragment(0, ("b0", "b1", "b3")),)

    scenario(4, body)


# --- others who change metadata meanwhile ---------------------------------------------------


def test_an_end_decided_by_somebody_else_is_adopted() -> None:
    """11: the ledger is closed empty while this recovery writes back; its own end is dropped."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0", 0, 1)

        async def close() -> None:
            await planted.put((await planted.metadata()).closed(NO_ENTRY, 0))

        cluster.bookies["b0"].before = after_calls("add", 1, close)
        assert await planted.read_all() == []

    scenario(3, body)


def test_a_writer_that_closes_meanwhile_is_adopted() -> None:
    """19: exactly one end."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1)

        async def close() -> None:
            await planted.put((await planted.metadata()).closed(1, 20))

        cluster.bookies["b0"].before = after_calls("read_tail", 1, close)
        assert await planted.read_all() == [0, 1]

    scenario(3, body)


def test_a_fragment_added_during_recovery_fails_it() -> None:
    """12."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)

        async def grow() -> None:
            metadata = await planted.metadata()
            await planted.put(metadata.with_fragment(Fragment(1, ("b1", "b2", "b3"))))

        cluster.bookies["b0"].before = after_calls("add", 1, grow)
        with pytest.raises(CorruptRecordError, match="while it was in recovery"):
            await planted.read_all()

    scenario(4, body)


def test_re_replication_of_an_older_fragment_is_kept() -> None:
    """17: the record moved on, the decision stands."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"), (2, "b1 b2 b3"))
        await planted.add("b0 b1 b2 b4", 0, 1)
        await planted.add("b1 b2 b3", 2)

        async def repair() -> None:
            await planted.put((await planted.metadata()).with_replica(0, 0, "b4"))

        cluster.bookies["b1"].before = after_calls("add", 1, repair)
        assert await planted.read_all() == [0, 1, 2]
        assert (await planted.metadata()).fragments[0].bookies == ("b4", "b1", "b2")

    scenario(5, body)


def test_a_ledger_left_in_recovery_is_taken_up() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0)
        await planted.put((await planted.metadata()).with_state(LedgerState.IN_RECOVERY))
        assert await planted.read_all() == [0]

    scenario(3, body)


def test_a_closed_ledger_is_left_alone() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0)
        await planted.put(replace(await planted.metadata(), state=LedgerState.OPEN).closed(0, 10))
        before = await planted.current()
        assert await planted.read_all() == [0]
        assert await planted.current() == before
        assert not cluster.bookies["b0"].ledgers[7].fenced

    scenario(3, body)


# --- several recoveries, and recoveries that die --------------------------------------------


@pytest.mark.parametrize("seed", range(1, 16))
def test_concurrent_recoveries_agree(seed: int) -> None:
    """2, 16, 17: whatever the interleaving, one end, and everything acked is in it."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1", 0, 1)
        await planted.add("b2", 0, 1, 2)
        if seed % 2:
            cluster.bookies[f"b{seed % 3}"].before = down("add")
        results = await asyncio.gather(*(planted.read_all() for _ in range(4)))
        assert all(result == results[0] for result in results)
        assert results[0][:2] == [0, 1]

    scenario(4, body, seed)


@pytest.mark.parametrize("step", range(1, 14))
def test_a_recovery_that_dies_anywhere_can_be_repeated(step: int) -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1, 2, lac=0)
        await planted.add("b0 b1", 3)
        calls = 0
        recovering = asyncio.create_task(planted.read_all())

        async def before(method: str, ledger: LedgerId) -> None:
            nonlocal calls
            calls += 1
            if calls == step:
                recovering.cancel()

        for bookie in cluster.bookies.values():
            bookie.before = before
        await asyncio.gather(recovering, return_exceptions=True)
        assert await planted.read_all() == [0, 1, 2, 3]

    scenario(3, body)


def test_a_recovery_that_lost_the_race_does_not_shift_what_is_announced() -> None:
    """L7 seen from the bookies: LAC there never passes the last entry of the closed ledger."""

    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.add("b0 b1 b2", 0, 1)
        await planted.add("b2", 2, 3)

        async def close() -> None:
            await planted.put((await planted.metadata()).closed(1, 20))

        cluster.bookies["b0"].before = after_calls("add", 1, close)
        cluster.bookies["b1"].before = down("read")
        assert await planted.read_all() == [0, 1]
        tails = [await bookie.read_tail(7) for bookie in cluster.bookies.values()]
        assert max(tail.hint for tail in tails) <= 1

    scenario(3, body)


def is_fenced(bookie: MemoryBookie) -> bool:
    return bookie.ledgers[7].fenced


def test_all_reachable_bookies_of_the_last_ensemble_are_asked_to_fence() -> None:
    async def body(cluster: MemoryCluster) -> None:
        planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
        await planted.read_all()
        assert all(is_fenced(cluster.bookies[name]) for name in ("b0", "b1", "b2"))

    scenario(3, body)


@pytest.mark.parametrize("seed", range(1, 17))
def test_under_churn_nothing_acked_is_lost(seed: int) -> None:
    """21: a writer, several recoveries, bookies that fail and return, random interleavings."""

    async def body(cluster: MemoryCluster) -> None:
        rng = random.Random(seed)
        faults: list[Hook] = [down(), down("add"), down("read"), hung("add"), slowly(0.02)]
        for bookie in cluster.bookies.values():
            bookie.before = slowly(0.001)
        replication = rng.choice([Replication(3, 3, 2), Replication(4, 3, 2), Replication(5, 3, 2)])
        writer = await cluster.catalog.create(replication)
        acked: list[int] = []

        async def write() -> None:
            with suppress(QuireError):
                while True:
                    acked.extend(await writer.append_many([b"x" * rng.randrange(2000)] * 3))

        async def churn() -> None:
            while True:
                bookie = cluster.bookies[f"b{rng.randrange(7)}"]
                bookie.before = rng.choice(faults)
                await asyncio.sleep(rng.uniform(0, 0.1))
                bookie.before = slowly(0.001)
                await asyncio.sleep(rng.uniform(0, 0.05))

        async def recover() -> tuple[int | None, int | None]:
            while True:
                with suppress(RetryError):
                    metadata = (await cluster.client().open(writer.ledger)).metadata
                    return metadata.last_entry, metadata.length
                await asyncio.sleep(rng.uniform(0, 0.5))

        writing = asyncio.create_task(write())
        churning = [asyncio.create_task(churn()) for _ in range(rng.randrange(1, 4))]
        await asyncio.sleep(rng.uniform(0.05, 0.5))
        ends = await asyncio.gather(*(recover() for _ in range(3)))
        for task in churning:
            task.cancel()
        await asyncio.gather(*churning, return_exceptions=True)
        for bookie in cluster.bookies.values():
            bookie.before = slowly(0)
        assert ends == [ends[0]] * 3
        assert acked == list(range(len(acked)))
        assert len(acked) <= (ends[0][0] or 0) + 1
        reader = await cluster.client().open(writer.ledger)
        entries = [entry async for entry in reader.read()]
        assert [entry.entry for entry in entries] == list(range(len(entries)))
        assert ends[0] == (len(entries) - 1, sum(len(entry.payload) for entry in entries))
        writer.abandon()
        await writer.close()
        await writing

    scenario(7, body, seed)

"""A ledger at rest: when its writer may rest, and that the next one goes on where it ended."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from quire.errors import HandleClosedError, LedgerFencedError, StoreUnavailableError
from quire.ledger.metadata import LedgerState
from quire.ledger.quorum import Replication
from quire.ledger.resting import RestingLedger
from quire.ledger.writer import LedgerWriter
from quire.metrics.meter import CountingMeter
from tests.support.virtual import virtually
from tests.support.writing import Writing


async def told(writing: Writing) -> None:
    """Wait until followers know the last entry."""
    await asyncio.sleep(1)


def rested(writing: Writing) -> RestingLedger:
    place = writing.writer._rest()
    assert place is not None
    return place


def wake(writing: Writing, place: RestingLedger) -> LedgerWriter:
    writing.writer = LedgerWriter(
        *(place.record, writing.roster, place.sealer, writing.options, random.Random(1)),
        at=place,
    )
    return writing.writer


def test_the_next_writer_goes_on_and_closes_the_whole_ledger() -> None:
    async def main() -> None:
        async with Writing() as writing:
            before = writing.writer
            assert [await before.append(b"x" * size) for size in (3, 5)] == [0, 1]
            await told(writing)
            place = rested(writing)
            assert (place.last, place.length) == (1, 8)
            await asyncio.sleep(0)
            assert len(asyncio.all_tasks()) == 1
            assert before.has_ended
            with pytest.raises(HandleClosedError):
                await before.append(b"late")
            after = wake(writing, place)
            assert await after.append(b"z" * 7) == 2
            assert (after.last_confirmed, after.length) == (2, 15)
            await after.close()
            found = await writing.metadata()
            assert (found.last_entry, found.length) == (2, 15)
            assert all(writing.bookies[name].held() == [0, 1, 2] for name in "abc")

    virtually(main)


def test_an_empty_ledger_rests_and_wakes() -> None:
    async def main() -> None:
        async with Writing() as writing:
            place = rested(writing)
            assert (place.last, place.length) == (-1, 0)
            assert await wake(writing, place).append(b"first") == 0

    virtually(main)


async def with_an_entry_under_way(writing: Writing) -> None:
    for bookie in writing.bookies.values():
        bookie.hold()
    task = asyncio.ensure_future(writing.writer.append(b"under way"))
    await asyncio.sleep(0.1)
    task.cancel()


async def with_a_slow_copy(writing: Writing) -> None:
    writing.bookies["c"].hold()
    await writing.writer.append(b"two copies of three")
    await told(writing)


async def with_followers_that_wait(writing: Writing) -> None:
    await writing.writer.append(b"not told")


async def with_a_bookie_down(writing: Writing) -> None:
    writing.roster.hidden.add("d")
    writing.bookies["c"].fail()
    await writing.writer.append(b"c is down, and there is no spare")
    await told(writing)


async def closed(writing: Writing) -> None:
    await writing.writer.close()


async def abandoned(writing: Writing) -> None:
    writing.writer.abandon()


@pytest.mark.parametrize(
    "bring",
    [
        with_an_entry_under_way,
        with_a_slow_copy,
        with_followers_that_wait,
        with_a_bookie_down,
        closed,
        abandoned,
    ],
    ids=lambda each: each.__name__,
)
def test_a_writer_with_something_to_do_goes_on(
    bring: Callable[[Writing], Awaitable[None]],
) -> None:
    async def main() -> None:
        async with Writing() as writing:
            await bring(writing)
            ended = writing.writer.has_ended
            assert writing.writer._rest() is None
            assert writing.writer.has_ended == ended

    virtually(main)


@pytest.mark.parametrize(
    "bring", [with_a_slow_copy, with_a_bookie_down], ids=lambda each: each.__name__
)
def test_an_ensemble_rests_when_all_of_it_has_every_entry(
    bring: Callable[[Writing], Awaitable[None]],
) -> None:
    async def main() -> None:
        async with Writing() as writing:
            assert writing.writer._ensemble.may_rest
            await bring(writing)
            assert not writing.writer._ensemble.may_rest

    virtually(main)


def test_an_ensemble_is_changed_after_a_rest_as_before() -> None:
    async def main() -> None:
        async with Writing() as writing:
            await writing.writer.append(b"0")
            await told(writing)
            after = wake(writing, rested(writing))
            writing.bookies["b"].fail()
            assert await after.append(b"1") == 1
            assert await after.append(b"2") == 2
            await told(writing)
            found = await writing.metadata()
            assert [each.first for each in found.fragments] == [0, 1]
            again = wake(writing, rested(writing))
            assert await again.append(b"3") == 3
            assert writing.bookies["d"].held() == [1, 2, 3]

    virtually(main)


def test_a_bookie_that_failed_is_remembered() -> None:
    """With full quorum a ledger is closed on all copies: a bookie that skipped an entry counts as
    incomplete.
    """

    async def main() -> None:
        async with Writing(bookies=3) as writing:
            writing.bookies["c"].fail()
            await writing.writer.append(b"0")
            writing.bookies["c"].heal()
            await asyncio.sleep(5)
            await writing.writer.append(b"1")
            await told(writing)
            assert writing.bookies["c"].held() != [0, 1]
            assert not writing.writer._ensemble.is_complete(await writing.metadata())
            after = wake(writing, rested(writing))
            assert not after._ensemble.is_complete(await writing.metadata())

    virtually(main)


def test_a_take_over_during_a_rest_is_met_by_the_next_append() -> None:
    async def main() -> None:
        async with Writing() as writing:
            await writing.writer.append(b"0")
            await told(writing)
            place = rested(writing)
            for name in "abc":
                await writing.bookies[name].read(
                    place.record.ledger, 0, 0, fence_key=place.sealer.access_key
                )
            await writing.edit(lambda metadata: replace(metadata, state=LedgerState.IN_RECOVERY))
            with pytest.raises(LedgerFencedError):
                await wake(writing, place).append(b"late")
            assert (await writing.metadata()).state is LedgerState.IN_RECOVERY

    virtually(main)


@pytest.mark.parametrize("replication", [Replication(3, 2, 2), Replication(4, 2, 1)], ids=str)
def test_striped_ledgers_rest_again_and_again(replication: Replication) -> None:
    async def main() -> None:
        async with Writing(replication, bookies=4) as writing:
            for entry in range(9):
                assert await writing.writer.append(b"%d" % entry) == entry
                await told(writing)
                wake(writing, rested(writing))
                writing.writer._ensemble.window.check()
            for entry in range(9):
                for position in replication.write_set(entry):
                    assert entry in writing.bookies["abcd"[position]].held()

    virtually(main)


def test_a_writer_that_wakes_counts_its_own_appends_only() -> None:
    async def main() -> None:
        async with Writing() as writing:
            await writing.writer.append_many([b"x"] * 100)
            await told(writing)
            place, meter = rested(writing), CountingMeter()
            writing.writer = LedgerWriter(
                *(place.record, writing.roster, place.sealer, writing.options, random.Random(1)),
                meter=meter,
                at=place,
            )
            await writing.writer.append(b"x")
            assert meter.append_outcomes["ok"] == 1

    virtually(main)


def test_a_change_that_the_store_did_not_make_is_no_reason_to_stay_awake() -> None:
    async def main() -> None:
        async with Writing() as writing:
            await writing.writer.append(b"0")
            in_order = writing.store.before

            async def refuse(method: str, path: str) -> None:
                if method == "put":
                    raise StoreUnavailableError("memory", "away")

            writing.store.before = refuse
            writing.bookies["c"].fail()
            await writing.writer.append(b"1")
            await asyncio.sleep(1)
            writing.store.before = in_order
            writing.bookies["c"].heal()
            await asyncio.sleep(60)
            await writing.writer.append(b"2")
            await asyncio.sleep(60)
            assert rested(writing)

    virtually(main)

"""What comes between a change and its record: an absent store, rivals, fences, closing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from quire.errors import (
    AppendOutcomeUnknownError,
    LedgerClosedError,
    LedgerFencedError,
    NoSuchLedgerError,
    QuireError,
)
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from tests.ledger.changing import AWAY, UNKNOWN, ensembles
from tests.support.virtual import virtually
from tests.support.writing import LEDGER, PATH, Writing, fail_next, settle


def test_an_edit_of_a_finished_fragment_during_the_change_survives() -> None:
    async def main() -> None:
        async with Writing(bookies=6) as world:
            await world.writer.append(b"0")
            world.bookies["a"].fail()
            await world.writer.append(b"1")
            await settle()
            world.roster.hidden.update("ef")
            gate = world.hold_changes()
            world.bookies["b"].fail()
            world.roster.hidden.clear()
            tasks = world.entries(1, 2)
            await settle()
            await world.edit(lambda current: current.with_replica(0, 0, "z"))
            gate.set()
            assert await tasks[0] == 2
            fragments = ensembles(await world.metadata())
            assert fragments[0] == (0, "zbc")
            assert len(fragments) == 3
            assert "b" not in fragments[2][1]
            assert world.writer._metadata == await world.metadata()

    virtually(main)


@pytest.mark.parametrize(
    ("edit", "later"),
    [
        (lambda current: current.with_state(LedgerState.IN_RECOVERY), LedgerFencedError),
        (lambda current: current.closed(0, 1), LedgerClosedError),
        (lambda current: current.with_fragment(Fragment(1, ("x", "y", "z"))), LedgerFencedError),
    ],
)
def test_a_take_over_during_the_change_ends_the_writer(
    edit: Callable[[LedgerMetadata], LedgerMetadata], later: type[QuireError]
) -> None:
    async def main() -> None:
        async with Writing() as world:
            await world.writer.append(b"0")
            gate = world.hold_changes()
            world.bookies["a"].fail()
            tasks = world.entries(2, 1)
            await settle()
            await world.edit(edit)
            before = await world.metadata()
            gate.set()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(result) for result in results] == [LedgerFencedError] * 2
            with pytest.raises(later):
                await world.writer.append(b"late")
            with pytest.raises(later):
                await world.writer.close()
            assert await world.metadata() == before, "untouched"
            assert world.bookies["d"].sent == []

    virtually(main)


def test_a_ledger_deleted_under_its_writer_ends_it() -> None:
    async def main() -> None:
        async with Writing() as world:
            await world.writer.append(b"0")
            world.bookies["a"].fail()
            await world.inner_store.delete(PATH)
            with pytest.raises(AppendOutcomeUnknownError, match="does not exist"):
                await world.writer.append(b"1")
            with pytest.raises(NoSuchLedgerError):
                await world.writer.append(b"2")

    virtually(main)


def test_an_unreachable_store_does_not_stop_an_ensemble_that_still_has_its_ack_quorum() -> None:
    async def main() -> None:
        async with Writing() as world:
            world.store.before = fail_next(10**6, AWAY)
            world.bookies["a"].fail()
            assert [await task for task in world.entries(3)] == [0, 1, 2]
            await asyncio.sleep(20)
            assert [await task for task in world.entries(2, 3)] == [3, 4]
            assert ensembles(await world.metadata()) == [(0, "abc")]
            assert world.bookies["d"].sent == []
            world.store.before = fail_next(0, AWAY)
            await asyncio.sleep(2)
            await world.writer.append(b"5")
            await asyncio.sleep(2)
            assert ensembles(await world.metadata())[-1][1] == "dbc"

    virtually(main)


@pytest.mark.parametrize("applied", [False, True])
def test_acks_stay_frozen_until_an_unknown_outcome_is_known(applied: bool) -> None:
    async def main() -> None:
        async with Writing() as world:
            await world.writer.append(b"0")
            away = True

            async def refuse(method: str, path: str) -> None:
                if away:
                    raise AWAY

            async def lose(method: str, path: str) -> None:
                if method == "put":
                    world.store.after = fail_next(0, UNKNOWN)
                    world.store.before = refuse
                    raise UNKNOWN

            if applied:
                world.store.after = lose
            else:
                world.store.before = lose
            world.bookies["a"].fail()
            tasks = world.entries(2, 1)
            await asyncio.sleep(10)
            assert world.writer.last_confirmed == 0, "the fragment might begin at entry 1"
            assert world.bookies["d"].sent == []
            away = False
            assert [await task for task in tasks] == [1, 2]
            assert ensembles(await world.metadata()) == [(0, "abc"), (1, "dbc")]

    virtually(main)


def test_closing_during_a_change_waits_for_it() -> None:
    async def main() -> None:
        async with Writing() as world:
            await world.writer.append(b"0")
            gate = world.hold_changes()
            world.bookies["a"].fail()
            task = world.entries(1, 1)[0]
            await settle()
            closing = asyncio.ensure_future(world.writer.close())
            await settle()
            assert not closing.done()
            gate.set()
            await closing
            assert await task == 1
            metadata = await world.metadata()
            assert (metadata.last_entry, metadata.state) == (1, LedgerState.CLOSED)
            assert ensembles(metadata) == [(0, "abc"), (1, "dbc")]

    virtually(main)


def test_a_fence_that_arrives_during_a_change_ends_the_writer() -> None:
    async def main() -> None:
        async with Writing() as world:
            gate = world.hold_changes()
            world.bookies["a"].fail()
            tasks = world.entries(1)
            await settle()
            await world.bookies["b"].read_tail(LEDGER, fence_key=world.sealer.access_key)
            tasks += world.entries(1, 1)
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(result) for result in results] == [LedgerFencedError] * 2
            gate.set()
            await settle()
            assert ensembles(await world.metadata()) == [(0, "abc")], "the change was dropped"

    virtually(main)

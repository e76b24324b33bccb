"""Closing by the writer: at LAC, once, and only while the ledger is its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quire.errors import (
    AppendOutcomeUnknownError,
    HandleClosedError,
    LedgerClosedError,
    LedgerFencedError,
    NoSuchLedgerError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from tests.support.virtual import virtually
from tests.support.writing import PATH, Writing, fail_next, settle

UNKNOWN = StoreOutcomeUnknownError(PATH, "by order of the test")
AWAY = StoreUnavailableError("memory:", "by order of the test")


async def fill(world: Writing, count: int = 3) -> None:
    await asyncio.gather(*world.entries(count))


def ended(metadata: LedgerMetadata) -> tuple[Any, ...]:
    return (metadata.state, metadata.last_entry, metadata.length)


@pytest.mark.parametrize("count", [0, 3])
def test_closing_records_the_end_and_refuses_what_comes_later(count: int) -> None:
    async def main() -> None:
        async with Writing() as world:
            await fill(world, count)
            await world.writer.close()
            assert ended(await world.metadata()) == (LedgerState.CLOSED, count - 1, count)
            assert world.writer._metadata == await world.metadata()
            with pytest.raises(HandleClosedError):
                await world.writer.append(b"x")
            with pytest.raises(HandleClosedError):
                await world.writer.append_many([])
            await world.writer.close()

    virtually(main)


def test_closing_waits_for_what_is_in_flight_and_for_what_waits_for_room() -> None:
    async def main() -> None:
        async with Writing(entries_in_flight_max=2) as world:
            gates = [world.bookies[name].hold() for name in "ab"]
            tasks = world.entries(5)
            await settle()
            closings = [asyncio.ensure_future(world.writer.close()) for _ in range(2)]
            await settle()
            with pytest.raises(HandleClosedError):
                await world.writer.append(b"x")
            for gate in gates:
                gate.set()
            await asyncio.gather(*closings)
            assert [await task for task in tasks] == list(range(5))
            assert ended(await world.metadata()) == (LedgerState.CLOSED, 4, 5)

    virtually(main)


def test_what_cannot_be_drained_fails_as_unknown_and_is_cut_off() -> None:
    async def main() -> None:
        async with Writing(append_timeout=5.0) as world:
            await fill(world)
            for bookie in world.bookies.values():
                bookie.hold()
            tasks = world.entries(2, 3)
            await asyncio.sleep(1)
            await world.writer.close()
            assert asyncio.get_running_loop().time() < 7
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(result) for result in results] == [AppendOutcomeUnknownError] * 2
            assert ended(await world.metadata()) == (LedgerState.CLOSED, 2, 3)

    virtually(main)


def test_a_writer_does_not_close_what_another_client_recovers() -> None:
    async def main() -> None:
        async with Writing() as world:
            await fill(world)
            await world.edit(lambda current: current.with_state(LedgerState.IN_RECOVERY))
            for _ in range(2):
                with pytest.raises(LedgerFencedError):
                    await world.writer.close()
            assert (await world.metadata()).state is LedgerState.IN_RECOVERY

    virtually(main)


def test_found_closed_at_the_same_end_is_success() -> None:
    async def main() -> None:
        async with Writing() as world:
            await fill(world)
            await world.edit(lambda current: current.closed(2, 3))
            await world.writer.close()
            assert world.writer._metadata.is_closed

    virtually(main)


@pytest.mark.parametrize(("last", "length"), [(1, 2), (3, 4), (2, 4)])
def test_found_closed_at_another_end_is_an_error(last: int, length: int) -> None:
    async def main() -> None:
        async with Writing() as world:
            await fill(world)
            await world.edit(lambda current: current.closed(last, length))
            with pytest.raises(LedgerClosedError) as caught:
                await world.writer.close()
            assert caught.value.last_entry == last

    virtually(main)


def test_an_edit_of_finished_fragments_survives_the_close() -> None:
    async def main() -> None:
        async with Writing(Replication(3, 3, 2)) as world:
            await fill(world)
            world.bookies["a"].fail()
            await fill(world)
            await settle()
            await world.edit(lambda current: current.with_replica(0, 0, "z"))
            await world.writer.close()
            metadata = await world.metadata()
            assert [fragment.bookies for fragment in metadata.fragments] == [
                ("z", "b", "c"),
                ("d", "b", "c"),
            ]
            assert metadata.is_closed

    virtually(main)


def test_a_foreign_last_fragment_means_that_the_ledger_is_not_ours() -> None:
    async def main() -> None:
        async with Writing() as world:
            await fill(world)
            fragment = Fragment(3, ("x", "y", "z"))
            await world.edit(lambda current: current.with_fragment(fragment))
            with pytest.raises(LedgerFencedError):
                await world.writer.close()
            assert not (await world.metadata()).is_closed

    virtually(main)


@pytest.mark.parametrize("applied", [False, True])
def test_an_unknown_outcome_is_found_out(applied: bool) -> None:
    async def main() -> None:
        async with Writing() as world:
            await fill(world)
            if applied:
                world.store.after = fail_next(1, UNKNOWN)
            else:
                world.store.before = fail_next(1, UNKNOWN)
            await world.writer.close()
            assert ended(await world.metadata()) == (LedgerState.CLOSED, 2, 3)

    virtually(main)


def test_a_store_that_is_away_is_waited_for() -> None:
    async def main() -> None:
        async with Writing() as world:
            await fill(world)
            world.store.before = fail_next(5, AWAY)
            await world.writer.close()
            assert (await world.metadata()).is_closed

    virtually(main)


@pytest.mark.parametrize("error", [AWAY, UNKNOWN])
def test_a_store_that_stays_away_fails_the_close_which_can_be_repeated(error: Exception) -> None:
    async def main() -> None:
        async with Writing(append_timeout=5.0) as world:
            await fill(world)
            world.store.before = fail_next(10**6, error)
            with pytest.raises(type(error)):
                await world.writer.close()
            assert asyncio.get_running_loop().time() < 6
            world.store.before = fail_next(0, error)
            await world.writer.close()
            assert (await world.metadata()).is_closed

    virtually(main)


def test_a_deleted_ledger_cannot_be_closed() -> None:
    async def main() -> None:
        async with Writing() as world:
            await fill(world)
            await world.inner_store.delete(PATH)
            with pytest.raises(NoSuchLedgerError):
                await world.writer.close()

    virtually(main)


def test_cancelling_a_close_abandons_the_writer() -> None:
    async def main() -> None:
        async with Writing() as world:
            for name in "ab":
                world.bookies[name].hold()
            task = world.entries(1)[0]
            await settle()
            closing = asyncio.ensure_future(world.writer.close())
            await settle()
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            with pytest.raises(AppendOutcomeUnknownError):
                await task
            assert (await world.metadata()).state is LedgerState.OPEN

    virtually(main)


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_a_block_closes_and_its_own_error_wins(error: type[Exception] | None) -> None:
    async def block(world: Writing) -> None:
        async with world.writer as writer:
            await writer.append(b"x")
            await world.edit(lambda current: current.closed(5, 5))
            if error is not None:
                raise error

    async def main() -> None:
        async with Writing() as world:
            with pytest.raises(error or LedgerClosedError):
                await block(world)

    virtually(main)


def test_closing_while_a_change_of_the_ensemble_is_stuck_in_the_store() -> None:
    async def main() -> None:
        async with Writing(append_timeout=5.0) as world:
            await fill(world)
            gate = world.hold_changes()
            others = [world.bookies[name].hold() for name in "bc"]
            world.bookies["a"].fail()
            tasks = world.entries(2, 3)
            await settle()
            for other in others:
                other.set()
            closing = asyncio.ensure_future(world.writer.close())
            await asyncio.sleep(4.9)
            assert not closing.done()
            await asyncio.sleep(0.5)
            gate.set()
            await closing
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(result) for result in results] == [AppendOutcomeUnknownError] * 2
            assert ended(await world.metadata()) == (LedgerState.CLOSED, 2, 3)

    virtually(main)


def test_a_change_that_was_applied_unseen_is_closed_over() -> None:
    """Its answer is still on the way when the writer closes: the fragment is recognised."""

    async def main() -> None:
        async with Writing(append_timeout=5.0) as world:
            await fill(world)
            stuck = asyncio.Event()

            async def after(method: str, path: str) -> None:
                if method == "put" and not stuck.is_set():
                    stuck.set()
                    await asyncio.sleep(3600)

            world.store.after = after
            others = [world.bookies[name].hold() for name in "bc"]
            world.bookies["a"].fail()
            tasks = world.entries(1, 3)
            await stuck.wait()
            for other in others:
                other.set()
            await world.writer.close()
            await asyncio.gather(*tasks, return_exceptions=True)
            metadata = await world.metadata()
            assert ended(metadata) == (LedgerState.CLOSED, 2, 3)
            assert metadata.last_fragment == Fragment(3, ("d", "b", "c"))

    virtually(main)

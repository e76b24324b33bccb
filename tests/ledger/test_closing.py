"""A writer that is abandoned while it closes: it stops as a crash would, and says so."""

from __future__ import annotations

import asyncio

import pytest

from quire.aio.tasks import Tasks
from quire.errors import HandleClosedError, QuireError
from quire.ledger.closing import TRANSITIONS, Closing, ClosingEvent, ClosingStage
from quire.ledger.metadata import LedgerState
from quire.ledger.numbered import NumberedWriter
from tests.support.memory_cluster import MemoryCluster, down, hung
from tests.support.virtual import virtually
from tests.support.writing import Writing, settle


def test_an_abandoned_writer_does_not_close_its_ledger_when_the_store_is_back() -> None:
    async def main() -> None:
        async with Writing() as world:
            await world.writer.append(b"x")
            gate = world.hold_changes()
            closings = [asyncio.create_task(world.writer.close()) for _ in range(2)]
            await settle()
            world.writer.abandon()
            for closing in closings:
                with pytest.raises(HandleClosedError):
                    await closing
            assert asyncio.get_running_loop().time() < 1, "nothing is waited for"
            gate.set()
            await asyncio.sleep(60)
            assert (await world.metadata()).state is LedgerState.OPEN
            await world.writer.close()

    virtually(main)


def test_a_close_that_is_abandoned_while_it_waits_for_entries_says_so() -> None:
    async def main() -> None:
        async with Writing() as world:
            gates = [world.bookies[name].hold() for name in "abc"]
            task = world.entries(1)[0]
            await settle()
            closing = asyncio.create_task(world.writer.close())
            await settle()
            world.writer.abandon()
            for gate in gates:
                gate.set()
            with pytest.raises(HandleClosedError):
                await closing
            assert (await asyncio.gather(task, return_exceptions=True))[0] != 0
            assert (await world.metadata()).state is LedgerState.OPEN

    virtually(main)


def test_an_abandoned_writer_completes_no_copies() -> None:
    async def main() -> None:
        async with MemoryCluster(3) as cluster:
            writer = await cluster.catalog.create(full_quorum=True)
            late = cluster.bookies[writer._metadata.last_fragment.bookies[0]]
            late.before = down()
            await writer.append(b"x")
            late.before = hung("list_entries")
            closing = asyncio.create_task(writer.close())
            await asyncio.sleep(0.1)
            assert not closing.done()
            writer.abandon()
            late.before = down("nothing")
            with pytest.raises(HandleClosedError):
                await closing
            await asyncio.sleep(60)
            assert (await cluster.catalog.metadata(writer.ledger)).state is LedgerState.OPEN

    virtually(main)


@pytest.mark.parametrize("held", ["adds", "changes"])
def test_a_numbered_writer_that_is_abandoned_while_it_closes_says_so(held: str) -> None:
    async def main() -> None:
        async with Writing(entries_in_flight_max=1) as world:
            writer = NumberedWriter(world.writer)
            gates = [world.hold_changes()]
            if held == "adds":
                gates = [world.bookies[name].hold() for name in "abc"]
            futures = [await writer.submit(entry, b"x") for entry in range(2)]
            await settle()
            closing = asyncio.create_task(writer.close())
            await settle()
            writer.abandon()
            for gate in gates:
                gate.set()
            with pytest.raises(HandleClosedError):
                await closing
            await asyncio.gather(*futures, return_exceptions=True)
            assert (await world.metadata()).state is LedgerState.OPEN
            await writer.close()

    virtually(main)


@pytest.mark.parametrize("turns", range(1, 13))
def test_whenever_it_is_abandoned_a_close_says_what_became_of_the_ledger(turns: int) -> None:
    async def main() -> None:
        async with Writing() as world:
            await world.writer.append(b"x")
            closing = asyncio.create_task(world.writer.close())
            for _ in range(turns):
                await asyncio.sleep(0)
            world.writer.abandon()
            (said,) = await asyncio.gather(closing, return_exceptions=True)
            is_closed = (await world.metadata()).is_closed
            assert said is None or isinstance(said, HandleClosedError)
            assert said is not None or is_closed
            await asyncio.sleep(60)
            assert (await world.metadata()).is_closed is is_closed

    virtually(main)


def test_what_closes_is_over_when_its_caller_is_cancelled() -> None:
    async def main() -> None:
        tasks, steps = Tasks(), list[str]()
        closing = Closing(7, tasks)

        async def work() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(1)
                steps.append("over")

        async def close() -> None:
            await closing.carry_out(work)

        def abandon() -> None:
            steps.append("abandoned")
            closing.abandon()

        calling = asyncio.create_task(closing.run(close, abandon))
        await asyncio.sleep(1)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert steps == ["over", "abandoned"]
        assert closing.stage is ClosingStage.ABANDONED
        await closing.run(tasks.join, abandon)

    virtually(main)


def test_an_error_of_what_closes_is_told_and_the_next_call_tries_again() -> None:
    async def main() -> None:
        tasks, errors = Tasks(), [QuireError("by order of the test")]
        closing = Closing(7, tasks)

        async def work() -> None:
            if errors:
                raise errors.pop()

        async def close() -> None:
            await closing.carry_out(work)

        with pytest.raises(QuireError, match="by order"):
            await closing.run(close, closing.abandon)
        assert not closing.is_decided
        await closing.run(close, closing.abandon)
        assert closing.stage is ClosingStage.CLOSED

    virtually(main)


def test_a_ledger_is_closed_by_finishing_only_and_stays_closed() -> None:
    for (stage, event), to in TRANSITIONS.items():
        assert to is not ClosingStage.OPEN
        if stage is ClosingStage.CLOSED:
            assert to is ClosingStage.CLOSED
        elif to is ClosingStage.CLOSED:
            assert event is ClosingEvent.FINISH
    missing = {
        (stage, event) for stage in ClosingStage for event in ClosingEvent
    } - TRANSITIONS.keys()
    assert missing == {
        (ClosingStage.OPEN, ClosingEvent.FINISH),
        (ClosingStage.CLOSED, ClosingEvent.FINISH),
    }


async def test_a_close_that_was_written_before_it_was_abandoned_is_no_error() -> None:
    tasks = Tasks()
    closing = Closing(7, tasks)

    async def work() -> None:
        closing.abandon()

    async def close() -> None:
        await closing.carry_out(work)

    await closing.run(close, closing.abandon)
    assert closing.stage is ClosingStage.CLOSED
    closing.abandon()
    assert closing.stage is ClosingStage.CLOSED

"""Entry ids chosen by the application: any order in, order of ids out, no id twice."""

from __future__ import annotations

import asyncio
import random

import pytest

from quire.entry import ENTRY_BYTES_MAX
from quire.errors import (
    DuplicateEntryError,
    EntryTooLargeError,
    HandleClosedError,
    InvalidRequestError,
    LedgerFencedError,
    NotEnoughBookiesError,
    OutcomeUnknownError,
)
from quire.ledger.numbered import NumberedWriter
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.testing.sim.policy import Policy
from tests.support.memory_cluster import MemoryCluster, down
from tests.support.virtual import virtually
from tests.support.writing import LEDGER, Writing, settle


def test_entries_come_in_any_order_and_are_confirmed_in_the_order_of_ids() -> None:
    async def main() -> None:
        async with Writing() as world:
            writer = NumberedWriter(world.writer)
            done: list[int] = []
            futures = {}
            for entry in (3, 1, 2):
                futures[entry] = await writer.submit(entry, b"%d" % entry)
                futures[entry].add_done_callback(lambda future: done.append(future.result()))
            await settle()
            assert done == []
            assert world.bookies["a"].held() == []
            assert await writer.append(0, b"0") == 0
            await settle()
            assert done == [1, 2, 3]
            frames = world.bookies["a"].ledgers[LEDGER].frames
            assert [world.sealer.unseal(entry, frames[entry]).payload for entry in range(4)] == [
                b"0",
                b"1",
                b"2",
                b"3",
            ]
            assert writer.expected == 4

    virtually(main)


def test_an_id_is_taken_once() -> None:
    async def main() -> None:
        async with Writing() as world:
            writer = NumberedWriter(world.writer)
            await writer.append(0, b"a")
            await writer.submit(2, b"c")
            for entry in (0, 2):
                with pytest.raises(DuplicateEntryError) as caught:
                    await writer.submit(entry, b"again")
                assert (caught.value.ledger, caught.value.entry) == (LEDGER, entry)
            with pytest.raises(InvalidRequestError, match="entry id -1"):
                await writer.submit(-1, b"x")
            with pytest.raises(EntryTooLargeError):
                await writer.submit(1, bytes(ENTRY_BYTES_MAX + 1))
            assert await writer.append(1, b"b") == 1

    virtually(main)


def test_what_waits_behind_a_gap_is_bounded_but_the_gap_can_be_filled() -> None:
    async def main() -> None:
        options = LedgerOptions(entries_in_flight_max=4)
        async with Writing() as world:
            writer = NumberedWriter(world.writer, options)
            for entry in (1, 2, 3):
                await writer.submit(entry, b"x")
            ahead = asyncio.create_task(writer.append(4, b"x"))
            await settle()
            assert not ahead.done()
            with pytest.raises(DuplicateEntryError):
                await writer.submit(4, b"x")
            given_up = asyncio.create_task(writer.append(40, b"x"))
            await settle()
            given_up.cancel()
            assert await writer.append(0, b"x") == 0
            assert await ahead == 4

    virtually(main)


def test_closing_keeps_what_has_no_gap_before_it_and_refuses_the_rest() -> None:
    async def main() -> None:
        async with Writing() as world, NumberedWriter(world.writer) as writer:
            answers = [await writer.submit(entry, b"x") for entry in (1, 0, 3)]
            await writer.close()
            assert [await answer for answer in answers[:2]] == [1, 0]
            with pytest.raises(HandleClosedError):
                await answers[2]
            with pytest.raises(HandleClosedError):
                await writer.submit(2, b"x")
            assert (await world.metadata()).last_entry == 1

    virtually(main)


def test_whoever_cuts_the_closing_short_abandons() -> None:
    async def main() -> None:
        async with Writing() as world:
            writer = NumberedWriter(world.writer)

            async def hang(payload: bytes) -> asyncio.Future[int]:
                await asyncio.Event().wait()
                raise AssertionError

            world.writer.submit = hang  # type: ignore[method-assign]
            answers = [await writer.submit(entry, b"x") for entry in (0, 2)]
            closing = asyncio.create_task(writer.close())
            await settle()
            assert not closing.done()
            closing.cancel()
            for answer in answers:
                with pytest.raises((HandleClosedError, OutcomeUnknownError)):
                    await answer
            await settle()
            assert closing.cancelled()
            assert asyncio.all_tasks() == {asyncio.current_task()}

    virtually(main)


def test_the_end_of_the_writer_is_everybodys() -> None:
    async def main() -> None:
        async with Writing() as world:
            writer = NumberedWriter(world.writer)
            held = await writer.submit(1, b"b")
            for name in "abc":
                await world.bookies[name].read_tail(LEDGER, fence_key=world.sealer.access_key)
            with pytest.raises(LedgerFencedError):
                await writer.append(0, b"a")
            with pytest.raises(LedgerFencedError):
                await held
            with pytest.raises(LedgerFencedError):
                await writer.append(2, b"c")
            writer.abandon()

    virtually(main)


def test_who_waits_behind_a_gap_is_told_that_the_writer_has_ended() -> None:
    async def main() -> None:
        async with Writing() as world:
            writer = NumberedWriter(world.writer, LedgerOptions(entries_in_flight_max=4))
            held = asyncio.ensure_future(writer.append(1, b"b"))
            too_far = asyncio.ensure_future(writer.append(9, b"j"))
            await settle()
            for name in "abc":
                await world.bookies[name].read_tail(LEDGER, fence_key=world.sealer.access_key)
            with pytest.raises(LedgerFencedError):
                await world.writer.append(b"by itself")
            for each in (held, too_far):
                with pytest.raises(LedgerFencedError):
                    await each
            writer.abandon()

    virtually(main)


def test_an_entry_that_cannot_be_sent_frees_its_id_and_the_room_behind_it() -> None:
    async def main() -> None:
        async with Writing() as world:
            writer = NumberedWriter(world.writer, LedgerOptions(bytes_in_flight_max=10))
            held = await writer.submit(1, b"x" * 10)
            waiting = asyncio.ensure_future(writer.submit(2, b"y" * 10))
            await settle()
            assert not waiting.done()
            submit = world.writer.submit

            async def refuse(payload: bytes) -> asyncio.Future[int]:
                raise NotEnoughBookiesError(3, 2)

            world.writer.submit = refuse  # type: ignore[method-assign]
            first = await writer.submit(0, b"z")
            for each in (first, held):
                with pytest.raises(NotEnoughBookiesError):
                    await each
            world.writer.submit = submit  # type: ignore[method-assign]
            last = await waiting
            for entry in (0, 1):
                await writer.submit(entry, b"again")
            assert await last == 2
            await writer.close()

    virtually(main)


@pytest.mark.parametrize("end", ["abandon", "close"])
def test_what_is_sent_as_the_writer_is_abandoned_is_not_called_unsent(end: str) -> None:
    async def main() -> None:
        async with Writing(entries_in_flight_max=1) as world:
            writer = NumberedWriter(world.writer)
            gates = [world.bookies[each].hold() for each in "abc"]
            await writer.submit(0, b"zero")
            sent = await writer.submit(1, b"one")
            held = await writer.submit(3, b"three")
            closing = asyncio.create_task(writer.close()) if end == "close" else None

            async def abandon_once_sent() -> None:
                while world.writer.last_pushed < 1:  # noqa: ASYNC110 - the very next turn
                    await asyncio.sleep(0)
                if closing is None:
                    writer.abandon()
                else:
                    closing.cancel()

            abandoning = asyncio.create_task(abandon_once_sent())
            await asyncio.sleep(0)
            for gate in gates:
                gate.set()
            await abandoning
            await settle()
            with pytest.raises(OutcomeUnknownError):
                await sent
            with pytest.raises(HandleClosedError):
                await held
            writer.abandon()

    virtually(main)


@pytest.mark.parametrize("seed", range(20))
def test_random_orders_with_failing_bookies(seed: int) -> None:
    """Scenario 36: whatever comes first and whoever fails, the ledger is the sequence of ids."""

    async def main() -> None:
        rng = random.Random(seed)
        options = LedgerOptions(entries_in_flight_max=8, request_timeout=1.0)
        async with MemoryCluster(6, seed=seed, options=options) as cluster:
            inner = await cluster.catalog.create(Replication(4, 3, 2))
            async with NumberedWriter(inner, options) as writer:
                ids = list(range(40))
                for start in range(0, 40, 5):
                    part = ids[start : start + 5]
                    rng.shuffle(part)
                    ids[start : start + 5] = part
                appends = [
                    asyncio.create_task(writer.append(entry, b"%d" % entry)) for entry in ids
                ]
                await asyncio.sleep(rng.random() * 0.001)
                cluster.bookies[f"b{rng.randrange(6)}"].before = down("add")
                assert await asyncio.gather(*appends) == ids
            reader = await cluster.catalog.open(inner.ledger)
            read = [entry.payload async for entry in reader.read()]
            assert read == [b"%d" % entry for entry in range(40)]

    virtually(main, seed, Policy.WALK)

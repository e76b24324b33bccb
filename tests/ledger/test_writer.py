"""What an append promises: order, durability on Qa, bounds, deadlines, and honest errors."""

from __future__ import annotations

import asyncio

import pytest

from quire.entry import ENTRY_BYTES_MAX
from quire.errors import (
    AppendOutcomeUnknownError,
    EntryTooLargeError,
    HandleClosedError,
    NotEnoughBookiesError,
)
from quire.ledger.metadata import LedgerState
from quire.ledger.quorum import Replication
from tests.support.virtual import virtually
from tests.support.writing import LEDGER, Writing, settle


def test_entries_are_confirmed_in_order_and_kept_by_the_whole_write_set() -> None:
    async def main() -> None:
        async with Writing() as world:
            assert [await task for task in world.entries(20)] == list(range(20))
            assert (world.writer.last_confirmed, world.writer.last_pushed) == (19, 19)
            await settle()
            for name in "abc":
                bookie = world.bookies[name]
                assert bookie.held() == list(range(20))
                for entry, frame in bookie.ledgers[LEDGER].frames.items():
                    assert world.sealer.unseal(entry, frame).payload == b"%d" % entry
            assert world.bookies["d"].held() == []

    virtually(main)


def test_a_frame_carries_what_was_confirmed_and_the_length_with_itself() -> None:
    async def main() -> None:
        async with Writing() as world:
            for payload in (b"a", b"bb", b"ccc"):
                await world.writer.append(payload)
            assert world.writer.length == 6
            frames = world.bookies["a"].ledgers[LEDGER].frames
            unsealed = [world.sealer.unseal(entry, frames[entry]) for entry in range(3)]
            assert [entry.lac for entry in unsealed] == [-1, 0, 1]
            assert [entry.length for entry in unsealed] == [1, 3, 6]

    virtually(main)


def test_striped_entries_go_to_their_write_sets_only() -> None:
    async def main() -> None:
        replication = Replication(5, 3, 2)
        async with Writing(replication, bookies=6) as world:
            await asyncio.gather(*world.entries(50))
            await settle()
            for position, name in enumerate("abcde"):
                expected = [e for e in range(50) if replication.is_written_to(e, position)]
                assert world.bookies[name].held() == expected

    virtually(main)


def test_appends_of_one_turn_of_the_loop_travel_together() -> None:
    async def main() -> None:
        async with Writing() as world:
            await asyncio.gather(*world.entries(100))
            assert world.bookies["a"].sent == [tuple(range(100))]

    virtually(main)


def test_what_arrives_while_runs_travel_goes_as_one_run_later() -> None:
    async def main() -> None:
        async with Writing(runs_outstanding_max=2) as world:
            gate = world.bookies["a"].hold()
            for number in range(5):
                world.entries(1, number)
                await settle()
            assert world.bookies["a"].sent == [(0,), (1,)]
            gate.set()
            await settle()
            assert world.bookies["a"].sent == [(0,), (1,), (2, 3, 4)]

    virtually(main)


def test_append_many_is_one_answer_with_consecutive_ids() -> None:
    async def main() -> None:
        async with Writing(entries_in_flight_max=4) as world:
            first = asyncio.ensure_future(world.writer.append_many([b"x"] * 10))
            others = world.entries(2)
            assert await first == range(10)
            assert [await task for task in others] == [10, 11]
            assert await world.writer.append_many([]) == range(12, 12)

    virtually(main)


def test_submit_waits_for_room_only_and_its_futures_resolve_in_order() -> None:
    async def main() -> None:
        async with Writing(entries_in_flight_max=2) as world:
            gates = [world.bookies[name].hold() for name in "ab"]
            futures = [await world.writer.submit(b"x") for _ in range(2)]
            third = asyncio.ensure_future(world.writer.submit(b"y"))
            await settle()
            assert not third.done(), "no room"
            resolved: list[int] = []
            for gate in gates:
                gate.set()
            futures.append(await third)
            for future in futures:
                future.add_done_callback(lambda done: resolved.append(done.result()))
            await asyncio.gather(*futures)
            await settle()
            assert resolved == [0, 1, 2]

    virtually(main)


def test_no_append_overtakes_another_that_waits_for_room() -> None:
    async def main() -> None:
        async with Writing(entries_in_flight_max=4) as world:
            gates = [world.bookies[name].hold() for name in "abc"]
            tasks = world.entries(10)
            await settle()
            assert world.writer.last_pushed == 3
            for gate in gates:
                gate.set()
            late = world.entries(1, 10)
            assert [await task for task in tasks + late] == list(range(11))

    virtually(main)


def test_bytes_in_flight_are_bounded() -> None:
    async def main() -> None:
        async with Writing(bytes_in_flight_max=100) as world:
            gates = [world.bookies[name].hold() for name in "abc"]
            tasks = [asyncio.ensure_future(world.writer.append(bytes(40))) for _ in range(5)]
            await settle()
            assert world.writer.last_pushed == 1
            for gate in gates:
                gate.set()
            await asyncio.gather(*tasks)
            assert await world.writer.append(bytes(1000)) == 5, "alone, any size fits"

    virtually(main)


def test_cancelling_a_caller_abandons_its_answer_only() -> None:
    async def main() -> None:
        async with Writing(entries_in_flight_max=3) as world:
            gates = [world.bookies[name].hold() for name in "abc"]
            tasks = world.entries(6)
            await settle()
            tasks[1].cancel()
            tasks[4].cancel()
            for gate in gates:
                gate.set()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [results[number] for number in (0, 2, 3, 5)] == [0, 2, 3, 4]
            assert world.writer.last_confirmed == 4, "the second was sent, the fifth was not"

    virtually(main)


def test_too_large_a_payload_is_refused_before_anything_is_sent() -> None:
    async def main() -> None:
        async with Writing() as world:
            large = bytes(ENTRY_BYTES_MAX + 1)
            with pytest.raises(EntryTooLargeError):
                await world.writer.append(large)
            with pytest.raises(EntryTooLargeError):
                await world.writer.append_many([b"x", large])
            with pytest.raises(EntryTooLargeError):
                await world.writer.submit(large)
            assert world.writer.last_pushed == -1
            assert await world.writer.append(bytes(ENTRY_BYTES_MAX)) == 0

    virtually(main)


def test_an_append_ends_by_its_timeout_and_the_writer_goes_on() -> None:
    async def main() -> None:
        async with Writing(append_timeout=7.0, bookies=3) as world:
            for name in "ab":
                world.bookies[name].hold()
            task = world.entries(1)[0]
            with pytest.raises(AppendOutcomeUnknownError, match="entry 0"):
                await task
            assert asyncio.get_running_loop().time() == pytest.approx(7.0)
            for name in "ab":
                world.bookies[name].heal()
            assert await world.writer.append(b"later") == 1, "entry 0 is kept, and confirmed"
            assert world.bookies["a"].held() == [0, 1]

    virtually(main)


def test_an_append_that_was_never_sent_says_so() -> None:
    async def main() -> None:
        async with Writing(append_timeout=7.0, bookies=3, entries_in_flight_max=2) as world:
            for name in "ab":
                world.bookies[name].fail()
            tasks = world.entries(2)
            await asyncio.sleep(1)
            tasks += world.entries(1, 2)
            submitted = asyncio.ensure_future(world.writer.submit(b"x"))
            many = asyncio.ensure_future(world.writer.append_many([b"x"]))
            results = await asyncio.gather(*tasks, submitted, many, return_exceptions=True)
            kinds = [type(result) for result in results]
            assert kinds == [AppendOutcomeUnknownError] * 2 + [NotEnoughBookiesError] * 3
            assert asyncio.get_running_loop().time() == pytest.approx(8.0)

    virtually(main)


def test_append_many_that_was_sent_in_part_is_unknown() -> None:
    async def main() -> None:
        async with Writing(append_timeout=7.0, bookies=3, entries_in_flight_max=2) as world:
            for name in "ab":
                world.bookies[name].hold()
            with pytest.raises(AppendOutcomeUnknownError, match="entry 0"):
                await world.writer.append_many([b"x"] * 3)

    virtually(main)


def test_followers_hear_of_the_last_entry_when_the_writer_falls_idle() -> None:
    async def main() -> None:
        async with Writing(lac_idle=0.010) as world:
            await asyncio.gather(*world.entries(5))
            assert world.bookies["a"].told == -1
            await asyncio.sleep(0.011)
            assert [world.bookies[name].told for name in "abc"] == [4, 4, 4]

    virtually(main)


def test_no_explicit_lac_while_entries_carry_it() -> None:
    async def main() -> None:
        async with Writing(lac_idle=0.010) as world:
            for number in range(20):
                await asyncio.gather(*world.entries(1, number))
                await asyncio.sleep(0.005)
            assert world.bookies["a"].told == -1
            await asyncio.sleep(0.011)
            assert world.bookies["a"].told == 19

    virtually(main)


def test_abandoning_is_like_a_crash() -> None:
    async def main() -> None:
        async with Writing(entries_in_flight_max=2) as world:
            await world.writer.append(b"0")
            for name in "abc":
                world.bookies[name].hold()
            tasks = world.entries(3, 1)
            await settle()
            world.writer.abandon()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            kinds = [type(result) for result in results]
            assert kinds == [AppendOutcomeUnknownError] * 2 + [HandleClosedError]
            with pytest.raises(HandleClosedError):
                await world.writer.append(b"x")
            await world.writer.close()
            assert (await world.metadata()).state is LedgerState.OPEN

    virtually(main)


def test_drain_waits_for_all_that_was_appended() -> None:
    async def main() -> None:
        async with Writing(entries_in_flight_max=2) as world:
            gates = [world.bookies[name].hold() for name in "abc"]
            tasks = world.entries(5)
            await settle()
            drained = asyncio.ensure_future(world.writer.drain())
            await settle()
            assert not drained.done()
            for gate in gates:
                gate.set()
            await drained
            assert world.writer.last_confirmed == 4
            await asyncio.gather(*tasks)
            await world.writer.drain()

    virtually(main)


def test_drain_ends_by_the_append_timeout() -> None:
    async def main() -> None:
        async with Writing(append_timeout=3.0) as world:
            for name in "abc":
                world.bookies[name].hold()
            future = await world.writer.submit(b"x")
            with pytest.raises(AppendOutcomeUnknownError):
                await world.writer.drain()
            assert isinstance(future.exception(), AppendOutcomeUnknownError)

    virtually(main)

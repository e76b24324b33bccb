"""Replacing bookies under a writer: the interleavings that lost data or hung elsewhere.

Numbers in docstrings are Apache BookKeeper's issues; every one of them is a scenario here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from quire.errors import (
    AppendOutcomeUnknownError,
    BookieUnavailableError,
    LedgerClosedError,
    LedgerFencedError,
    NoSuchLedgerError,
    QuireError,
    ReadOnlyBookieError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from tests.sim.policy import Policy
from tests.support.virtual import virtually
from tests.support.writing import LEDGER, PATH, Writing, fail_next, settle

UNKNOWN = StoreOutcomeUnknownError(PATH, "by order of the test")
AWAY = StoreUnavailableError("memory:", "by order of the test")


def ensembles(metadata: LedgerMetadata) -> list[tuple[int, str]]:
    return [(fragment.first, "".join(fragment.bookies)) for fragment in metadata.fragments]


def test_many_failures_of_one_bookie_are_one_change() -> None:
    async def main() -> None:
        async with Writing(runs_outstanding_max=4) as world:
            world.trace_changes()
            await asyncio.gather(*world.entries(3))
            world.bookies["b"].fail()
            for number in range(3, 8):
                world.entries(1, number)
                await asyncio.sleep(0)
            await world.writer.drain()
            assert ensembles(await world.metadata()) == [(0, "abc"), (3, "adc")]
            assert world.trace.count("metadata changed") == 1
            await settle()
            assert world.bookies["d"].held() == list(range(3, 8))

    virtually(main)


def test_a_fragment_in_which_nothing_was_confirmed_is_replaced_in_place() -> None:
    async def main() -> None:
        async with Writing() as world:
            world.bookies["a"].fail()
            await asyncio.gather(*world.entries(3))
            await settle()
            assert ensembles(await world.metadata()) == [(0, "dbc")]

    virtually(main)


def test_a_second_failure_during_the_change_ends_in_one_fragment() -> None:
    async def main() -> None:
        async with Writing(bookies=5) as world:
            await asyncio.gather(*world.entries(2))
            gate = world.hold_changes()
            world.bookies["a"].fail()
            tasks = world.entries(1, 2)
            await settle()
            world.bookies["b"].fail()
            tasks += world.entries(1, 3)
            await settle()
            assert world.writer.last_confirmed == 1, "acks stay frozen"
            gate.set()
            assert [await task for task in tasks] == [2, 3]
            metadata = await world.metadata()
            assert [fragment.first for fragment in metadata.fragments] == [0, 2]
            assert sorted(metadata.last_fragment.bookies) == ["c", "d", "e"]

    virtually(main)


def test_a_replacement_that_fails_is_replaced_in_turn() -> None:
    async def main() -> None:
        async with Writing(bookies=6) as world:
            for name in "ade":
                world.bookies[name].fail()
            await asyncio.gather(*world.entries(3))
            await asyncio.sleep(1)
            await world.writer.append(b"3")
            await settle()
            assert ensembles(await world.metadata())[-1][1] == "fbc"
            assert world.bookies["f"].held()[-1] == 3

    virtually(main)


def test_nothing_is_confirmed_while_the_ensemble_changes() -> None:
    async def main() -> None:
        async with Writing() as world:
            await world.writer.append(b"0")
            gate = world.hold_changes()
            world.bookies["a"].fail()
            tasks = world.entries(3, 1)
            await settle()
            assert world.bookies["b"].held() == world.bookies["c"].held() == [0, 1, 2, 3]
            assert world.writer.last_confirmed == 0
            assert not any(task.done() for task in tasks)
            gate.set()
            assert [await task for task in tasks] == [1, 2, 3]
            assert ensembles(await world.metadata()) == [(0, "abc"), (1, "dbc")]

    virtually(main)


def test_a_replacement_is_sent_nothing_before_metadata_names_it() -> None:
    """1591: a change that only the writer knew of lost the entries written to it."""

    async def main() -> None:
        async with Writing() as world:
            world.trace_changes()
            await asyncio.gather(*world.entries(2))
            gate = world.hold_changes()
            world.bookies["a"].fail()
            world.entries(2, 2)
            await settle()
            assert world.bookies["d"].sent == []
            world.trace.clear()
            gate.set()
            await world.writer.drain()
            await settle()
            assert world.trace == ["metadata changed", "d took 2..3"]

    virtually(main)


def test_a_striped_entry_beside_the_failure_completes_after_the_change() -> None:
    """E=3, Qw=2: entry 1 lives on positions 1 and 2 and has nothing to do with position 0."""

    async def main() -> None:
        async with Writing(Replication(3, 2, 2)) as world:
            gate = world.hold_changes()
            world.bookies["a"].fail()
            tasks = world.entries(3)
            await settle()
            assert world.bookies["b"].held() == [0, 1]
            assert world.bookies["c"].held() == [1, 2]
            gate.set()
            assert [await task for task in tasks] == [0, 1, 2]
            assert world.bookies["d"].held() == [0, 2]

    virtually(main)


def test_acks_of_a_replaced_bookie_never_count_for_any_entry() -> None:
    """4097: acks were undone entry by entry, and entries further on were confirmed meanwhile."""

    async def main() -> None:
        async with Writing(Replication(3, 2, 2), runs_outstanding_max=4) as world:
            # Position 1 hangs, so nothing is confirmed; position 0 has acked 0, 2, 3, 5.
            gate = world.bookies["b"].hold()
            tasks = world.entries(6)
            await settle()
            assert world.bookies["a"].held() == [0, 2, 3, 5]
            hold_d = world.bookies["d"].hold()
            world.bookies["a"].fail()
            tasks += world.entries(1, 6)
            await settle()
            gate.set()
            await settle()
            # Entry 1 is on b and c. Entries 0, 2 … were acked by a, which metadata no longer names.
            assert ensembles(await world.metadata()) == [(0, "dbc")]
            assert world.writer.last_confirmed == -1
            assert not any(task.done() for task in tasks)
            hold_d.set()
            assert [await task for task in tasks] == list(range(7))
            assert world.bookies["d"].held() == [0, 2, 3, 5, 6]

    virtually(main)


def test_a_change_without_replacement_does_not_hang_the_writer() -> None:
    """4261: a second failure found nothing to change and nobody ran the ack pump again."""

    async def main() -> None:
        async with Writing(bookies=3) as world:
            gate = world.bookies["b"].hold()
            world.bookies["a"].fail()
            tasks = world.entries(3)
            await settle()
            gate.set()
            assert [await task for task in tasks] == [0, 1, 2]

    virtually(main)


def test_a_failure_after_the_ack_still_replaces_the_bookie() -> None:
    """1390: it was forgotten, and every later entry had a copy less."""

    async def main() -> None:
        async with Writing() as world:
            gate = world.bookies["c"].hold()
            await asyncio.gather(*world.entries(3))
            assert world.writer.last_confirmed == 2
            world.bookies["c"].fail()
            gate.set()
            await settle()
            assert ensembles(await world.metadata()) == [(0, "abc")], "the held run went through"
            await world.writer.append(b"3")
            await settle()
            assert ensembles(await world.metadata()) == [(0, "abc"), (4, "abd")]

    virtually(main)


def test_a_bookie_that_does_not_answer_is_replaced_after_the_request_timeout() -> None:
    async def main() -> None:
        async with Writing(request_timeout=2.0) as world:
            world.bookies["a"].hold()
            await world.writer.append(b"0")
            await asyncio.sleep(1.9)
            assert ensembles(await world.metadata()) == [(0, "abc")]
            await asyncio.sleep(0.2)
            assert ensembles(await world.metadata()) == [(0, "abc"), (1, "dbc")]

    virtually(main)


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
            assert world.writer.metadata == await world.metadata()

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


def test_without_a_spare_the_writer_goes_on_with_an_ack_quorum() -> None:
    async def main() -> None:
        async with Writing(bookies=3) as world:
            world.bookies["a"].fail()
            assert [await task for task in world.entries(3)] == [0, 1, 2]
            await asyncio.sleep(10)
            tries = len(world.bookies["a"].sent)
            assert tries < 20, "probed with back-off"
            world.bookies["a"].heal()
            await asyncio.gather(*world.entries(2, 3))
            await asyncio.sleep(1.1)
            await asyncio.gather(*world.entries(2, 5))
            await settle()
            assert world.bookies["a"].held()[-1] == 6
            assert ensembles(await world.metadata()) == [(0, "abc")]

    virtually(main)


def test_a_spare_that_appears_later_is_used() -> None:
    async def main() -> None:
        async with Writing() as world:
            world.roster.hidden.add("d")
            world.bookies["a"].fail()
            await asyncio.gather(*world.entries(3))
            assert ensembles(await world.metadata()) == [(0, "abc")]
            world.roster.hidden.clear()
            await asyncio.sleep(1.1)
            await world.writer.append(b"3")
            await asyncio.sleep(1.1)
            assert [each for _, each in ensembles(await world.metadata())] == ["abc", "dbc"]
            first = (await world.metadata()).last_fragment.first
            assert world.bookies["d"].held() == list(range(first, 4))

    virtually(main)


def test_below_an_ack_quorum_appends_stall_until_bookies_return() -> None:
    async def main() -> None:
        async with Writing(bookies=3) as world:
            for name in "ab":
                world.bookies[name].fail()
            tasks = world.entries(3)
            await asyncio.sleep(10)
            assert not any(task.done() for task in tasks)
            world.bookies["b"].heal()
            assert [await task for task in tasks] == [0, 1, 2]
            assert world.bookies["b"].held() == world.bookies["c"].held() == [0, 1, 2]

    virtually(main)


def test_half_a_repair_is_better_than_none() -> None:
    async def main() -> None:
        async with Writing(bookies=4) as world:
            for name in "ab":
                world.bookies[name].fail()
            assert [await task for task in world.entries(3)] == [0, 1, 2]
            assert ensembles(await world.metadata()) == [(0, "dbc")]

    virtually(main)


def test_a_bookie_that_just_failed_is_no_spare() -> None:
    async def main() -> None:
        async with Writing(bookies=4, quarantine=30.0) as world:
            world.bookies["a"].fail()
            await world.writer.append(b"0")
            await settle()
            world.bookies["a"].heal()
            world.bookies["b"].fail()
            await world.writer.append(b"1")
            await asyncio.sleep(5)
            assert ensembles(await world.metadata())[-1][1] == "dbc", "b stays, down"
            await asyncio.sleep(30)
            await world.writer.append(b"2")
            await asyncio.sleep(2)
            assert ensembles(await world.metadata())[-1][1] == "dac"

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


def test_a_spare_is_used_even_while_the_old_bookie_is_being_probed() -> None:
    async def main() -> None:
        async with Writing(request_timeout=5.0) as world:
            world.roster.hidden.add("d")
            world.bookies["a"].hold()
            await world.writer.append(b"0")
            await asyncio.sleep(5.1)
            await world.writer.append(b"1")
            await settle()
            assert len(world.bookies["a"].sent) == 2, "the probe hangs like the run before it"
            world.roster.hidden.clear()
            await asyncio.sleep(1.0)
            assert ensembles(await world.metadata())[-1][1] == "dbc"

    virtually(main)


def test_a_false_alarm_thaws_again() -> None:
    async def main() -> None:
        async with Writing() as world:
            world.writer._change.start()
            assert await world.writer.append(b"0") == 0

    virtually(main)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(
    "replication", [Replication(5, 3, 2), Replication(3, 3, 2), Replication(4, 2, 2)], ids=str
)
def test_whatever_fails_confirmed_entries_are_where_metadata_says(
    replication: Replication, seed: int
) -> None:
    """Random failures, slowness, store trouble; every ack is then checked against the bookies."""

    async def main() -> None:
        rng = random.Random(seed)
        async with Writing(
            replication,
            bookies=9,
            seed=seed,
            request_timeout=1.0,
            quarantine=1.5,
            append_timeout=20.0,
            entries_in_flight_max=16,
        ) as world:
            window = world.writer._window
            for bookie in world.bookies.values():
                bookie.before = lambda method, ledger: wobble(method)
            trouble = True

            async def wobble(method: str) -> None:
                if not trouble:
                    return
                await asyncio.sleep(rng.choice((0.0, 0.001, 0.05)))
                if rng.random() < 0.05:
                    raise BookieUnavailableError("?", "by chance")
                if rng.random() < 0.01:
                    await asyncio.sleep(3600)

            async def doubt(method: str, path: str) -> None:
                window.check()
                await asyncio.sleep(rng.choice((0.0, 0.02)))
                if trouble and method == "put" and rng.random() < 0.2:
                    raise UNKNOWN

            async def refuse(method: str, path: str) -> None:
                if trouble and rng.random() < 0.2:
                    raise AWAY

            world.store.after, world.store.before = doubt, refuse
            tasks = []
            for number in range(120):
                tasks += world.entries(1, number)
                await asyncio.sleep(rng.choice((0.0, 0.0, 0.01, 0.1)))
                window.check()
                world.writer._backlog.check(window.lac, window.pushed)
            trouble = False
            results = await asyncio.gather(*tasks, return_exceptions=True)
            await world.writer.close()
            metadata = await world.metadata()
            assert metadata.last_entry == 119
            for number, entry in enumerate(results):
                if isinstance(entry, BaseException):
                    assert isinstance(entry, AppendOutcomeUnknownError), entry
                    continue
                copies = [
                    world.bookies[name].ledgers[LEDGER].frames.get(entry, b"")
                    for name in metadata.write_set(entry)
                ]
                good = [copy for copy in copies if copy]
                assert len(good) >= replication.ack_quorum
                assert {world.sealer.unseal(entry, copy).payload for copy in good} == {
                    b"%d" % number
                }

    virtually(main, seed, Policy.WALK if seed % 2 else Policy.INTERLEAVE)


def test_a_delayed_change_leaves_a_failed_bookie_its_place_while_the_others_suffice() -> None:
    async def main() -> None:
        async with Writing(Replication(3, 3, 2), bookies=5, delay_ensemble_change=True) as world:
            world.bookies["a"].fail()
            await asyncio.gather(*world.entries(3))
            await settle(5)
            assert len((await world.metadata()).fragments) == 1
            # A second one of the same write set: now it must not wait.
            world.bookies["b"].fail()
            await asyncio.gather(*world.entries(3, first=3))
            await settle()
            last = (await world.metadata()).last_fragment
            assert (last.first, last.bookies[2]) == (3, "c")
            assert not {"a", "b"}.intersection(last.bookies)

    virtually(main)


def test_a_delayed_change_probes_the_bookie_that_kept_its_place() -> None:
    async def main() -> None:
        async with Writing(Replication(3, 3, 2), bookies=4, delay_ensemble_change=True) as world:
            world.bookies["a"].fail()
            await world.writer.append(b"a")
            world.bookies["a"].heal()
            await settle(2)
            await world.writer.append(b"b")
            await settle()
            assert world.bookies["a"].held() == [1]
            assert world.bookies["d"].held() == []

    virtually(main)


def test_a_read_only_bookie_is_replaced_even_if_changes_are_delayed() -> None:
    async def main() -> None:
        async with Writing(Replication(3, 3, 2), bookies=4, delay_ensemble_change=True) as world:
            world.bookies["a"].fail_with(ReadOnlyBookieError("a", "by order of the test"))
            await world.writer.append(b"a")
            await settle(1)
            assert "a" not in (await world.metadata()).last_fragment.bookies

    virtually(main)


def test_striped_write_sets_are_counted_one_by_one() -> None:
    async def main() -> None:
        async with Writing(Replication(4, 2, 1), bookies=6, delay_ensemble_change=True) as world:
            world.bookies["a"].fail()
            world.bookies["c"].fail()
            await asyncio.gather(*world.entries(8))
            await settle(1)
            assert len((await world.metadata()).fragments) == 1, "no write set has both"
            world.bookies["b"].fail()
            await asyncio.gather(*world.entries(8, first=8))
            await settle(1)
            assert "b" not in (await world.metadata()).last_fragment.bookies

    virtually(main)

"""Replacing bookies under a writer without losing an ack (numbers: BookKeeper's issues)."""

from __future__ import annotations

import asyncio
import random

import pytest

from quire.errors import AppendOutcomeUnknownError, BookieUnavailableError
from quire.ledger.quorum import Replication
from quire.testing.sim.policy import Policy
from tests.ledger.changing import AWAY, UNKNOWN, ensembles
from tests.support.seeds import seeds
from tests.support.virtual import virtually
from tests.support.writing import LEDGER, Writing, settle


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


def test_a_false_alarm_thaws_again() -> None:
    async def main() -> None:
        async with Writing() as world:
            world.writer._change.start()
            assert await world.writer.append(b"0") == 0

    virtually(main)


@pytest.mark.parametrize("seed", seeds(40, 6))
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
                    world.bookies[name].look(LEDGER).frames.get(entry, b"")
                    for name in metadata.write_set(entry)
                ]
                good = [copy for copy in copies if copy]
                assert len(good) >= replication.ack_quorum
                assert {world.sealer.unseal(entry, copy).payload for copy in good} == {
                    b"%d" % number
                }

    virtually(main, seed, Policy.WALK if seed % 2 else Policy.INTERLEAVE)

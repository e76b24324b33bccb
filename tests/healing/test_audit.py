"""An auditor at work, in memory and in virtual time: what moves, what does not, and when."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from quire.healing.summary import Count, State, Summary
from quire.healing.switch import Go, Pause, change_switch
from quire.healing.wishes import away, change_standing, drain
from quire.labels import Labels
from quire.ledger.domains import Placement
from quire.ledger.records import VersionedMetadata
from quire.ledger.stored_records import StoredRecords
from quire.metastore.layout import bookie_path, ledger_path, moves_path
from quire.metastore.registration import decode_registration, encode_registration
from quire.metastore.versions import join_version
from quire.repair.assignments import Assignment
from quire.testing.sim.policy import Policy
from tests.healing.auditing import DELAY, ENTRIES, Scene, scene
from tests.support.seeds import seeds
from tests.support.virtual import virtually


async def set_writable(made: Scene, bookie: str, writable: bool) -> None:
    """What a bookie does when its disk is nearly full, or its operator wishes so."""
    store, path = made.cluster.store, bookie_path(bookie)
    found = await store.get(path)
    address = decode_registration(bookie, found.value)
    await store.put(path, encode_registration(replace(address, writable=writable)), found.version)


def test_a_lost_bookie_is_healed_after_the_delay_and_not_before() -> None:
    async def main() -> None:
        async with scene(5, 30) as (made, audit):
            await made.work(audit, 60.0)
            assert (await made.summary()).state is State.IDLE
            await made.lose("b0")
            hurt = await made.short()
            assert len(hurt) > 5
            await made.work(audit, DELAY - 20.0)
            assert await made.requests() == []
            assert made.copied == 0
            assert (await made.summary()).lost == ()
            seconds = await made.until(audit, lambda it: it.lost == ("b0",) and not it.open)
            assert seconds < 60.0
            assert await made.short() == []
            assert made.copied == len(hurt)
            for ledger in hurt:
                metadata = await made.metadata(ledger)
                assert not any("b0" in each.bookies for each in metadata.fragments)
            assert (await made.summary()).state is State.IDLE

    virtually(main)


def test_a_bookie_that_comes_back_in_time_costs_nothing() -> None:
    async def main() -> None:
        async with scene(5, 10) as (made, audit):
            for _ in range(3):
                await made.work(audit, 30.0)
                await made.cluster.unregister("b0")
                await made.work(audit, DELAY - 30.0)
                bookie = made.cluster.bookies["b0"]
                await made.cluster.register("b0")
                made.cluster.bookies["b0"] = bookie
            await made.work(audit, DELAY)
            assert made.copied == 0

    virtually(main)


@pytest.mark.parametrize("seed", seeds(4, 1))
def test_ten_auditors_at_once_do_no_harm(seed: int) -> None:
    async def main() -> None:
        async with scene(6, 12) as (made, _):
            audits = [made.audit(number, delay=5.0) for number in range(10)]
            await asyncio.gather(*(each.build() for each in audits))
            await made.lose("b0")

            async def work(number: int) -> None:
                for _ in range(8):
                    await audits[number].round()
                    await asyncio.sleep(1.0)

            async def copy() -> None:
                for _ in range(12):
                    await made.copy()
                    await asyncio.sleep(1.0)

            await asyncio.gather(copy(), *map(work, range(10)))
            await made.until(audits[3], lambda it: it.lost == ("b0",) and not it.open)
            assert await made.short() == []
            assert await made.requests() == []

    virtually(main, seed, Policy.WALK)


@pytest.mark.slow
def test_the_most_urgent_ledgers_go_first() -> None:
    async def main() -> None:
        async with scene(4, 0) as (made, _):
            await made.fill(200)
            await made.lose("b0")
            await made.cluster.register("b9")
            await change_switch(
                made.cluster.store, lambda it: it.going(Go("anna", 0, ("b0", "b1")))
            )
            audit = made.audit(delay=1.0)
            await audit.build()
            await made.cluster.unregister("b1")
            await made.work(audit, 1.5, copies=False)
            asked = await made.requests()
            left = {}
            async for page in made.records.list():
                for ledger in page:
                    names = (await made.metadata(ledger)).fragments[0].bookies
                    left[ledger] = len(set(names) - {"b0", "b1"})
            wanted = sorted(left, key=lambda it: left[it])
            ones = [each for each in wanted if left[each] == 1]
            assert 60 < len(ones) < 140
            assert {each.ledger for each in asked} <= set(ones)
            assert len(asked) >= 64

    virtually(main)


def test_a_pause_holds_to_its_end() -> None:
    async def main() -> None:
        async with scene(5, 10) as (made, audit):
            now = made.now_ms
            pause = Pause("new switch", "anna", now, now + 400_000)
            await change_switch(made.cluster.store, lambda it: it.paused(pause))
            await made.lose("b0")
            await made.work(audit, 350.0)
            assert made.copied == 0
            summary = await made.summary()
            assert summary.state is State.PAUSED
            assert "new switch" in summary.why
            assert summary.open > 0
            await made.work(audit, 200.0)
            assert await made.short() == []

    virtually(main)


def test_mass_loss_waits_for_an_operator() -> None:
    async def main() -> None:
        async with scene(7, 20) as (made, audit):
            await made.lose("b0", "b1")
            await made.work(audit, 3 * DELAY)
            assert made.copied == 0
            assert await made.requests() == []
            summary = await made.summary()
            assert summary.state is State.MASS_LOSS
            assert "b0, b1" in summary.why
            go = Go("anna", made.now_ms, ("b0", "b1"))
            await change_switch(made.cluster.store, lambda it: it.going(go))
            await made.until(audit, lambda it: it.state is State.IDLE and not it.open)
            assert await made.short() == []
            await made.lose("b2")  # one at a time is no mass loss: the others are healed
            await made.until(audit, lambda it: "b2" in it.lost and not it.open)
            assert await made.short() == []

    virtually(main)


def test_a_second_loss_meanwhile_stops_what_is_not_asked_yet() -> None:
    async def main() -> None:
        async with scene(7, 100) as (made, audit):
            await made.lose("b0")
            await made.work(audit, DELAY + 0.5, copies=False)
            asked = len(await made.requests())
            assert asked > 0
            await made.cluster.unregister("b1")
            await made.work(audit, 1.5 * DELAY, copies=False)
            assert len(await made.requests()) <= asked
            assert (await made.summary()).state is State.MASS_LOSS

    virtually(main)


@pytest.mark.slow
def test_without_room_it_waits_without_a_busy_loop() -> None:
    async def main() -> None:
        async with scene(4, 12) as (made, audit):
            spare = {f"b{n}" for n in range(4)}
            for bookie in sorted(spare):
                await set_writable(made, bookie, False)
            await made.lose("b0")
            await made.work(audit, DELAY + 60.0)
            assert (await made.summary()).state is State.STUCK
            assert "no room" in (await made.summary()).why
            reads = audit.survey.reads
            await made.work(audit, 1200.0)
            # 12 ledgers after each pause, and two of all a second against drift, read twice
            assert audit.survey.reads - reads < 12 * 10 + 2 * 1200 * 2
            await set_writable(made, "b3", True)
            await made.until(audit, lambda it: it.count(Count.UNPLACED) < 12)
            for bookie in ("b1", "b2"):
                await set_writable(made, bookie, True)
            await made.until(audit, lambda it: not it.open and it.state is State.IDLE)
            assert await made.short() == []

    virtually(main)


def test_a_domain_that_lacks_is_named() -> None:
    async def main() -> None:
        async with scene(1, 0) as (made, audit):
            for name in ("x", "y", "z"):
                await made.cluster.register(name, labels=Labels(rack=f"r-{name}"))
            policy = Placement.parse("require=rack:3")
            writer = await made.cluster.catalog.create(placement=policy)
            await writer.append(b"entry")
            await writer.close()
            await made.cluster.register("y2", labels=Labels(rack="r-y"))
            await made.lose("x")
            await made.until(audit, lambda it: it.state is State.STUCK)
            assert "no domain" in (await made.summary()).why
            await made.cluster.register("w", labels=Labels(rack="r-w"))
            await made.until(audit, lambda it: it.state is State.IDLE)
            assert await made.short() == []

    virtually(main)


@pytest.mark.slow
def test_an_away_holds_and_ends_and_is_void_after_another_loss() -> None:
    async def main() -> None:
        async with scene(7, 20) as (made, audit):
            store, now = made.cluster.store, made.now_ms
            await change_standing(store, "b0", away("b0", now, 400.0, "new fan", "anna"))
            await made.lose("b0")
            await made.work(audit, 350.0)
            assert made.copied == 0
            await made.until(audit, lambda it: it.lost == ("b0",) and not it.open)
            await change_standing(store, "b1", away("b1", made.now_ms, 2000.0, "new fan", "anna"))
            await made.lose("b1")
            await made.work(audit, DELAY)
            await made.cluster.unregister("b2")
            await made.until(audit, lambda it: "b2" in it.lost)
            assert (await made.summary()).state in (State.MOVING, State.IDLE)
            await made.until(audit, lambda it: "b1" in it.lost)

    virtually(main)


def test_holes_are_found_and_filled() -> None:
    async def main() -> None:
        async with scene(4, 40) as (made, audit):
            async for page in made.records.list():
                for ledger in page[::4]:
                    bookie = (await made.metadata(ledger)).fragments[0].bookies[1]
                    del made.cluster.bookies[bookie].look(ledger).frames[ENTRIES - 2]
            assert len(await made.short()) == 10
            await made.until(audit, lambda it: it.count(Count.HOLES) > 0)
            await made.work(audit, 120.0)
            assert await made.short() == []
            assert (await made.summary()).count(Count.HOLES) == 0

    virtually(main)


@pytest.mark.slow
def test_ledgers_without_a_place_are_shown_until_a_bookie_takes_them() -> None:
    """They are tried again and again. An alert that waits a quarter of an hour must see them."""

    async def main() -> None:
        async with scene(3, 20) as (made, audit):
            await made.lose("b0")
            await made.until(audit, lambda it: it.state is State.STUCK)

            def is_not_shown(summary: Summary) -> bool:
                return summary.state is not State.STUCK or summary.count(Count.UNPLACED) != 20

            assert await made.work(audit, 3600.0, is_not_shown) == 3600.0
            await made.cluster.register("b9")
            await made.until(audit, lambda it: not it.count(Count.UNPLACED) and not it.open)
            assert await made.short() == []

    virtually(main)


def test_a_ledger_is_checked_for_holes_when_it_closes() -> None:
    async def main() -> None:
        async with scene(3, 0) as (made, audit):
            await made.work(audit, 30.0)
            writer = await made.cluster.catalog.create()
            await writer.append(b"entry")
            await made.work(audit, 30.0)
            await writer.close()
            del made.cluster.bookies["b1"].look(writer.ledger).frames[0]
            await made.work(audit, 30.0)
            assert await made.short() == []
            assert made.copied == 1

    virtually(main)


def test_entries_on_no_bookie_are_reported_and_asked_of_none() -> None:
    async def main() -> None:
        async with scene(5, 8) as (made, audit):
            for bookie in made.cluster.bookies.values():
                bookie.look(3).frames.pop(2, None)
            await made.until(audit, lambda it: it.count(Count.NO_COPY) == 1)
            summary = await made.summary()
            assert summary.worst == (3,)
            assert made.copied == 0

    virtually(main)


def test_a_target_that_is_lost_is_asked_no_more() -> None:
    async def main() -> None:
        async with scene(5, 30) as (made, audit):
            await made.lose("b0")
            await made.work(audit, DELAY + 5.0, copies=False)
            assert await made.requests()
            go = Go("anna", 0, ("b0", "b4"))
            await change_switch(made.cluster.store, lambda it: it.going(go))
            await made.lose("b4")
            await made.work(audit, DELAY + 30.0, copies=False)
            found = await made.cluster.store.get(moves_path("b4"))
            assert b'"assignments":[]' in found.value
            await made.until(audit, lambda it: not it.count(Count.ASKED))
            assert (await made.summary()).count(Count.ONE_COPY) == 0

    virtually(main)


def test_a_damaged_record_of_requests_stops_one_bookie_only() -> None:
    async def main() -> None:
        async with scene(6, 20) as (made, audit):
            await made.cluster.store.create(moves_path("b0"), b"damaged")
            await made.lose("b0")
            await made.until(audit, lambda it: it.lost == ("b0",) and not it.open)

    virtually(main)


def test_deleted_ledgers_fall_out() -> None:
    async def main() -> None:
        async with scene(4, 30) as (made, audit):
            await made.lose("b0")
            for ledger in range(0, 30, 2):
                await made.cluster.store.delete(ledger_path(ledger))
            await made.work(audit, 30.0)
            assert len(audit.survey.index) == 15
            await made.until(audit, lambda it: it.lost == ("b0",) and not it.open)

    virtually(main)


def test_a_drained_bookie_is_emptied() -> None:
    async def main() -> None:
        async with scene(5, 20) as (made, audit):
            await change_standing(made.cluster.store, "b0", drain("b0", made.now_ms, "", "anna"))
            await set_writable(made, "b0", False)
            await made.until(audit, lambda it: it.count(Count.DRAIN) > 0)
            await made.until(audit, lambda it: not it.open)
            assert not audit.survey.index.names_closed("b0")
            assert await made.short() == []

    virtually(main)


def test_no_request_is_made_twice() -> None:
    async def main() -> None:
        async with scene(5, 30) as (made, audit):
            await made.lose("b0")
            await made.work(audit, DELAY + 1.0, copies=False)
            first = await made.requests()
            await made.work(audit, 100.0, copies=False)
            assert await made.requests() == first
            ledgers = [each.ledger for each in first]
            assert len(set(ledgers)) == len(ledgers)
            assert all(isinstance(each, Assignment) and each.replicas for each in first)

    virtually(main)


class ZooKeeperVersions(StoredRecords):
    """Records whose versions are as large as ZooKeeper's: they hold a transaction and a time."""

    async def read(self, ledger: int) -> VersionedMetadata:
        found = await super().read(ledger)
        return VersionedMetadata(found.metadata, join_version(2**40, found.version, 1_800_000_000))


def test_an_auditor_works_with_the_versions_of_zookeeper() -> None:
    async def main() -> None:
        async with scene(4, 3) as (made, _):
            made.records = ZooKeeperVersions(made.cluster.store, made.cluster.rng)
            audit = made.audit()
            await audit.build()
            await made.work(audit, 60.0)
            assert (await made.summary()).state is State.IDLE
            assert (await made.summary()).indexed == 3

    virtually(main)

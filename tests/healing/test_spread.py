"""Narrow ledgers move into more domains: last, on settled bookies, and until moves end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from unittest.mock import patch

import pytest

from quire.bookie import BookieAddress
from quire.entry import BookieId
from quire.healing import spread
from quire.healing.audit import ROUND_SECONDS, Audit
from quire.healing.facts import gather_facts
from quire.healing.reasons import AskedFor, asked_for
from quire.healing.spread import REQUESTS_MAX, Settling
from quire.healing.summary import Count, Summary
from quire.healing.switch import Go, Pause, change_switch
from quire.labels import Labels
from quire.ledger.domains import Placement, least_spread
from quire.metastore.layout import bookie_path, standing_path
from quire.metastore.registration import encode_registration
from quire.metastore.standing import Standing, Wish
from quire.repair.assignments import Assignment
from tests.healing.auditing import DELAY, Scene
from tests.healing.test_domains import relabel
from tests.support.memory_cluster import MemoryCluster
from tests.support.virtual import virtually

LEDGERS = 12
RACKS = {"b0": "r1", "b1": "r1", "b2": "r2", "b3": "r2", "b4": "r3", "b5": "r3"}
LOST = ("b4", "b5")


@asynccontextmanager
async def racks(placement: str = "") -> AsyncIterator[tuple[Scene, Audit]]:
    """Three racks of two bookies, and ledgers of three copies that a settled auditor knows."""
    async with MemoryCluster(0) as cluster:
        for bookie in RACKS:
            await cluster.register(bookie, labels=place(bookie))
        made = Scene(cluster)
        await write(made, LEDGERS, placement)
        audit = made.audit()
        await audit.build()
        await made.work(audit, 2 * DELAY)
        yield made, audit


def place(bookie: BookieId) -> Labels:
    return Labels(rack=RACKS[bookie], host=bookie)


async def write(made: Scene, ledgers: int, placement: str = "") -> None:
    for _ in range(ledgers):
        create = made.cluster.catalog.create(placement=Placement.parse(placement))
        async with await create as writer:
            await writer.append(b"entry")


async def lose_a_rack(made: Scene, audit: Audit) -> None:
    """Lose a rack, and heal its ledgers into the others."""
    await made.lose(*LOST)
    await made.work(audit, 2.0)
    await change_switch(
        made.cluster.store, lambda switch: switch.going(Go("test", made.now_ms, LOST))
    )
    await made.work(audit, 3 * DELAY)


async def bring_back(made: Scene) -> None:
    for bookie in LOST:
        made.gone.discard(bookie)
        address = BookieAddress(bookie, f"{bookie}:1", labels=place(bookie))
        await made.cluster.session.create(bookie_path(bookie), encode_registration(address))


async def spreads(made: Scene) -> list[int]:
    """In how many racks each closed ledger is, at least."""
    where = {each.bookie: each.labels for each in await gather_facts(made.cluster.store)}
    found = []
    async for page in made.records.list():
        for ledger in page:
            metadata = await made.metadata(ledger)
            found += [
                least_spread(metadata.replication, [where[x] for x in each.bookies], "rack")
                for each in metadata.fragments
            ]
    return found


@contextmanager
def full(audit: Audit, *bookies: BookieId) -> Iterator[None]:
    """Have no room for requests to some bookies in the block."""
    room = audit.requests.room

    def left(bookie: BookieId, wanted: Mapping[BookieId, Sequence[Assignment]]) -> int:
        return 0 if bookie in bookies else room(bookie, wanted)

    with patch.object(audit.requests, "room", left):
        yield


async def count(made: Scene, kind: Count = Count.SPREAD) -> int:
    return (await made.summary()).count(kind)


def nothing_to_spread(summary: Summary) -> bool:
    return not summary.count(Count.SPREAD)


@pytest.mark.slow
def test_a_rack_that_was_lost_and_is_back_gets_copies_again() -> None:
    async def main() -> None:
        async with racks() as (made, audit):
            assert await spreads(made) == [3] * LEDGERS
            assert await count(made) == 0
            await lose_a_rack(made, audit)
            assert await spreads(made) == [2] * LEDGERS, "two racks are left"
            assert await count(made) == 0, "there are no more domains than two"
            copied = made.copied
            await bring_back(made)
            await made.work(audit, DELAY - 15.0)
            assert await count(made) == LEDGERS
            assert made.copied == copied, "bookies have not settled"
            await made.until(audit, nothing_to_spread)
            assert await spreads(made) == [3] * LEDGERS
            assert made.copied == copied + LEDGERS, "one move for each ledger"
            assert await made.short() == []
            await made.work(audit, 10 * DELAY)
            assert made.copied == copied + LEDGERS, "moves end"

    virtually(main)


@pytest.mark.parametrize("placement", ["require=rack:2", "durable=rack:2", "prefer=rack:2"])
@pytest.mark.slow
def test_bookies_that_got_other_labels_give_copies_away(placement: str) -> None:
    async def main() -> None:
        async with racks(placement) as (made, audit):
            for bookie in ("b2", "b3"):
                await relabel(made, bookie, Labels(rack="r1", host=bookie))
            await made.work(audit, 15.0)
            short = sum(each < 2 for each in await spreads(made))
            is_required = not placement.startswith("prefer")
            assert await count(made, Count.FEW_DOMAINS) == short * is_required
            assert await count(made) == short
            await made.work(audit, 5 * DELAY)
            assert await count(made) == await count(made, Count.FEW_DOMAINS) == 0
            assert min(await spreads(made)) == 2
            assert await made.short() == []

    virtually(main)


@pytest.mark.slow
def test_a_domain_that_flaps_moves_nothing() -> None:
    async def main() -> None:
        async with racks() as (made, audit):
            await lose_a_rack(made, audit)
            copied = made.copied
            for _ in range(6):
                await bring_back(made)
                await made.work(audit, DELAY / 2)
                for bookie in LOST:
                    await made.cluster.unregister(bookie)
                await made.work(audit, DELAY / 2)
            assert made.copied == copied
            await bring_back(made)
            await made.until(audit, nothing_to_spread)
            assert await spreads(made) == [3] * LEDGERS

    virtually(main)


def test_a_pause_stops_moves_and_its_end_lets_them_go_on() -> None:
    async def main() -> None:
        async with racks() as (made, audit):
            await lose_a_rack(made, audit)
            copied = made.copied
            pause = Pause("test", "test", made.now_ms, made.now_ms + round(5000 * DELAY))
            await change_switch(made.cluster.store, lambda switch: switch.paused(pause))
            await bring_back(made)
            await made.work(audit, 4 * DELAY)
            assert made.copied == copied
            assert await count(made) == LEDGERS, "the count is shown in a pause, too"
            await made.until(audit, nothing_to_spread)

    virtually(main)


def test_a_ledger_of_a_bookie_that_drains_waits() -> None:
    """The drain moves it, and chooses the domain."""

    async def main() -> None:
        async with racks() as (made, audit):
            await lose_a_rack(made, audit)
            await bring_back(made)
            store, drained = made.cluster.store, Standing(Wish.DRAIN, since_ms=made.now_ms)
            await store.create(standing_path("b0"), drained.encode())
            await made.work(audit, 10 * DELAY)
            assert await made.requests() == []
            assert await count(made) == await count(made, Count.DRAIN) == 0
            assert set(await spreads(made)) == {3}

    virtually(main)


@pytest.mark.slow
def test_two_auditors_at_once_end_too() -> None:
    async def main() -> None:
        async with racks() as (made, audit):
            await lose_a_rack(made, audit)
            other = made.audit(number=1)
            await other.build()
            await bring_back(made)
            copied = made.copied
            for _ in range(20):
                await made.work(audit, DELAY / 5, copies=False)
                await made.work(other, DELAY / 5)
            assert await spreads(made) == [3] * LEDGERS
            assert made.copied <= copied + 2 * LEDGERS, "two bookies for a place at most"

    virtually(main)


@pytest.mark.slow
def test_a_bookie_has_few_such_requests_at_a_time() -> None:
    async def main() -> None:
        async with racks() as (made, audit):
            await write(made, 5 * REQUESTS_MAX)
            await made.work(audit, DELAY)
            await lose_a_rack(made, audit)
            made.seen = 0
            await bring_back(made)
            await made.until(audit, nothing_to_spread)
            assert 0 < made.seen <= REQUESTS_MAX

    virtually(main)


def test_the_next_requests_follow_as_soon_as_some_end() -> None:
    """Not at the next whole look, ten seconds later: the simulator's healing 1283."""

    async def main() -> None:
        async with racks() as (made, audit):
            await lose_a_rack(made, audit)
            await bring_back(made)
            await made.until(audit, lambda summary: summary.count(Count.SPREAD) == LEDGERS)
            rounds = audit.tally.rounds
            with patch.object(spread, "REQUESTS_MAX", 1):
                await made.until(audit, nothing_to_spread)
            settling = DELAY / ROUND_SECONDS
            assert audit.tally.rounds - rounds <= settling + 3
            assert await spreads(made) == [3] * LEDGERS

    virtually(main)


def test_a_bookie_that_takes_no_requests_stops_no_others() -> None:
    async def main() -> None:
        async with racks() as (made, audit):
            await lose_a_rack(made, audit)
            await bring_back(made)
            await made.work(audit, 15.0)  # writers see it
            writers = [await made.cluster.catalog.create() for _ in range(LEDGERS)]
            with full(audit, *LOST):
                await relabel(made, "b0", Labels(rack="r2", host="b0"))
                await made.work(audit, 2 * DELAY)
                for writer in writers:
                    await writer.append(b"entry")
                    await writer.close()
                await made.work(audit, 2 * DELAY)
                found = await spreads(made)
                assert found == [2] * LEDGERS + [3] * LEDGERS
            await made.until(audit, nothing_to_spread)
            assert await spreads(made) == [3] * 2 * LEDGERS

    virtually(main)


@pytest.mark.slow
def test_a_move_that_its_bookie_refuses_is_not_asked_for_again_before_an_hour() -> None:
    async def main() -> None:
        async with racks() as (made, audit):
            await lose_a_rack(made, audit)
            await bring_back(made)

            async def refuse(bookie: BookieId, asked: Assignment) -> None:
                return None

            before = made.copied
            with patch.object(made, "_copy", refuse):
                await made.work(audit, 3 * DELAY)
                assert made.copied == before + LEDGERS, "each was asked for once"
                assert await count(made) == 0
                await made.work(audit, spread.AGAIN_SECONDS)
                assert made.copied == before + 2 * LEDGERS
            await made.work(audit, spread.AGAIN_SECONDS)
            assert await spreads(made) == [3] * LEDGERS

    virtually(main)


def test_the_reason_of_a_request_is_told_by_the_record() -> None:
    async def main() -> None:
        async with racks() as (made, audit):
            await lose_a_rack(made, audit)
            await bring_back(made)
            while not (asked := await made.requests()):
                await made.work(audit, 5.0, copies=False)
            facts = {each.bookie: each for each in await gather_facts(made.cluster.store)}
            for each in asked:
                metadata = await made.metadata(each.ledger)
                assert asked_for(each, facts, metadata) is AskedFor.SPREAD
                assert asked_for(each, facts) is AskedFor.RETURNED, "the record is not known"
            await made.copy()
            for each in asked:
                metadata = await made.metadata(each.ledger)
                assert asked_for(each, facts, metadata) is AskedFor.RETURNED, "it is done"

    virtually(main)


def test_bookies_settle_after_the_delay_without_a_change() -> None:
    settling, place = Settling(10.0), {"a": Labels(rack="r1")}
    table: list[tuple[float, dict[BookieId, Labels], set[BookieId], bool]] = [
        (0.0, place, set(), False),
        (9.9, place, set(), False),
        (10.0, place, set(), True),
        (11.0, place, {"b"}, False),
        (20.9, place, set(), False),
        (21.0, place, set(), True),
        (22.0, {"a": Labels(rack="r2")}, set(), False),
        (31.9, {"a": Labels(rack="r2")}, set(), False),
        (32.0, {"a": Labels(rack="r2")}, set(), True),
        (33.0, {}, set(), False),
    ]
    for now, there, silent, is_settled in table:
        assert settling.look(there, silent, now) is is_settled

"""Copies give way to appends: the rule by numbers, and a bookie with a slow disk."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from quire.storage.journal.options import StorageOptions
from quire.storage.maintenance.pace import RISE, SHARE_MIN, STEP_SECONDS, CopyPace
from tests.storage.maintenance.fakes import FakeCopies, all_to
from tests.storage.scene import KEY, SMALL, Scene, run_of
from tests.support.virtual import virtually

FULL = 1000.0
BOUND = 0.1
LEDGER = 50
WRITTEN = 60


def rate(pace: CopyPace, now: float) -> float:
    return 1 / pace.pause(1, now)


def step(pace: CopyPace, now: float, *, slow: int = 0, fast: int = 0) -> float:
    """Let appends pass, and return the rate afterwards."""
    for _ in range(slow):
        pace.waited(BOUND * 1.01)
    for _ in range(fast):
        pace.waited(BOUND)
    return rate(pace, now)


def test_the_full_rate_without_appends_and_beside_fast_ones() -> None:
    pace = CopyPace(FULL, BOUND)
    assert pace.pause(500, 0.0) == pytest.approx(0.5)
    for now in range(1, 20):
        assert step(pace, now, fast=100) == FULL
    assert pace.counts.halved == 0


@pytest.mark.parametrize(
    ("slow", "fast", "is_halved"), [(1, 99, False), (2, 98, True), (1, 0, True)]
)
def test_one_of_a_hundred_may_be_slow(slow: int, fast: int, is_halved: bool) -> None:
    pace = CopyPace(FULL, BOUND)
    rate(pace, 0.0)
    assert step(pace, 1.0, slow=slow, fast=fast) == (FULL / 2 if is_halved else FULL)
    assert pace.counts.percent == (50 if is_halved else 100)


def test_appends_that_became_durable_together_count_one_by_one() -> None:
    pace = CopyPace(FULL, BOUND)
    rate(pace, 0.0)
    pace.waited(BOUND / 2, 1000)
    pace.waited(BOUND * 2, 10)
    assert rate(pace, 1.0) == FULL
    pace.waited(BOUND * 2, 11)
    assert rate(pace, 2.0) == FULL / 2


def test_the_rate_falls_to_a_least_one_and_not_to_nothing() -> None:
    pace = CopyPace(FULL, BOUND)
    rates = [step(pace, now, slow=5) for now in range(12)]
    assert rates[:3] == [FULL / 2, FULL / 4, FULL / 8]
    assert rates[-1] == FULL * SHARE_MIN
    assert pace.counts.halved == 12


def test_the_rate_comes_back_slower_than_it_falls() -> None:
    pace = CopyPace(FULL, BOUND)
    for now in range(12):
        step(pace, now, slow=5)
    rates = [step(pace, now, fast=5) for now in range(12, 21)]
    assert rates == sorted(rates)
    assert rates[0] == FULL * (SHARE_MIN + RISE)
    assert rates[-2] == FULL


def test_slow_appends_of_one_step_count_in_it_only() -> None:
    pace = CopyPace(FULL, BOUND)
    rate(pace, 0.0)
    assert step(pace, STEP_SECONDS / 2, slow=5) == FULL
    assert rate(pace, STEP_SECONDS) == FULL / 2
    assert rate(pace, STEP_SECONDS * 1.5) == FULL / 2
    assert rate(pace, STEP_SECONDS * 2) == FULL * (0.5 + RISE)


@pytest.mark.parametrize("seed", range(20))
def test_the_rate_stays_within_its_bounds(seed: int) -> None:
    rng, now = random.Random(seed), 0.0
    pace = CopyPace(FULL, BOUND)
    for _ in range(200):
        now += rng.random() * 2
        before = pace.counts.percent
        found = step(pace, now, slow=rng.choice((0, 0, 3)), fast=rng.randrange(100))
        assert FULL * SHARE_MIN <= found <= FULL
        assert pace.counts.percent >= before // 2 - 1


async def copied(options: StorageOptions, latency: float) -> tuple[float, int]:
    """Copy a ledger beside a writer; return the seconds, and how often the pace was halved."""
    scene = Scene(options=options)
    node = await scene.start()
    scene.disk.faults.latency_seconds = latency
    copies = FakeCopies({LEDGER: all_to(WRITTEN - 1)})
    scene.node._storage.state(LEDGER).doubt()
    mender = node.mender(copies.open)
    now = asyncio.get_running_loop().time
    ended = asyncio.Event()

    async def write() -> None:
        entry = 0
        while not ended.is_set():
            await node.add(7, KEY, run_of(7, entry))
            entry += 1

    writing = asyncio.create_task(write())
    begun = now()
    await mender.round()
    taken = now() - begun
    ended.set()
    await writing
    assert (await scene.entries(LEDGER)).keys() == set(range(WRITTEN))
    assert mender.counts.ledgers_cleared == 1
    counters = (await node.info()).counters
    await scene.close()
    return taken, counters["pace_halved"]


def test_a_bookie_copies_slower_while_its_appends_are_slow() -> None:
    async def main() -> None:
        options = replace(SMALL, upkeep_bytes_per_second=16 * 1024)
        quick, never = await copied(options, 0.001)
        slow, halved = await copied(options, 0.3)
        patient, never_either = await copied(replace(options, slow_append_seconds=5.0), 0.3)
        assert (never, never_either) == (0, 0)
        assert halved >= 2
        assert quick < patient < slow / 2

    virtually(main)


def test_copies_alone_are_not_held_up_by_themselves() -> None:
    """Their own waits are no appends: a slow disk without writers is used in full."""

    async def main() -> None:
        scene = Scene(options=SMALL)
        node = await scene.start()
        scene.disk.faults.latency_seconds = 0.5
        scene.node._storage.state(LEDGER).doubt()
        mender = node.mender(FakeCopies({LEDGER: all_to(WRITTEN - 1)}).open)
        await mender.round()
        assert mender.counts.entries == WRITTEN
        assert (await node.info()).counters["pace_halved"] == 0
        await scene.close()

    virtually(main)

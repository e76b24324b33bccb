"""The tail of a ledger, and waiting for news of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quire.bookie import Bookie
from quire.entry import NO_ENTRY
from tests.contract.bookie.capabilities import BookieCapability
from tests.contract.bookie.frames import KEY, LEDGER, SEALER, frame, run_of
from tests.contract.bookie.subjects import SOON, Run, Subject
from tests.contract.capabilities import needs


async def asleep(bookie: Bookie, task: asyncio.Task[object]) -> None:
    """Return when requests sent before have arrived; the task must still be waiting for its."""
    for _ in range(3):
        await bookie.info()
    assert not task.done()


@needs(BookieCapability.NAMES_FENCES)
def test_the_tail_is_the_highest_of_everything(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        tail = await bookie.read_tail(LEDGER)
        assert (tail.frame, tail.lac_packet, tail.hint, tail.fenced) == (None, None, -1, False)
        await bookie.add(LEDGER, KEY, run_of(0, 1, 2))
        tail = await bookie.read_tail(LEDGER)
        assert (tail.frame, tail.lac_packet, tail.hint) == (frame(2), None, 1)
        await bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(2))
        tail = await bookie.read_tail(LEDGER)
        assert (tail.frame, tail.lac_packet, tail.hint) == (frame(2), SEALER.seal_lac(2), 2)

    run(check)


def test_the_highest_explicit_lac_wins(run: Run) -> None:
    async def check(subject: Subject) -> None:
        for lac in (3, 5, 4, 5):
            await subject.bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(lac))
        tail = await subject.bookie.read_tail(LEDGER)
        assert (tail.lac_packet, tail.hint) == (SEALER.seal_lac(5), 5)

    run(check)


async def _advance(bookie: Bookie) -> None:
    await bookie.add(LEDGER, KEY, run_of(1))


async def _advance_explicitly(bookie: Bookie) -> None:
    await bookie.write_lac(LEDGER, KEY, SEALER.seal_lac(0))


async def _fence(bookie: Bookie) -> None:
    await bookie.read_tail(LEDGER, fence_key=KEY)


@needs(BookieCapability.NAMES_FENCES)
@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("news", [_advance, _advance_explicitly, _fence])
def test_a_wait_ends_with_news(
    run: Run, news: Callable[[Bookie], Awaitable[None]], seen: bool
) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        if seen:
            await bookie.add(LEDGER, KEY, run_of(0))
        waiting = asyncio.create_task(bookie.wait_tail(LEDGER, NO_ENTRY, 60.0))
        await asleep(bookie, waiting)
        await news(bookie)
        async with asyncio.timeout(SOON):
            tail = await waiting
        assert tail.hint == 0 or tail.fenced

    run(check)


@needs(BookieCapability.NAMES_FENCES)
def test_a_wait_for_what_is_there_returns_at_once(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0, 1))
        async with asyncio.timeout(SOON):
            assert (await subject.bookie.wait_tail(LEDGER, NO_ENTRY, 60.0)).hint == 0
            await subject.bookie.read_tail(LEDGER, fence_key=KEY)
            assert (await subject.bookie.wait_tail(LEDGER, 99, 60.0)).fenced

    run(check)


@needs(BookieCapability.NAMES_FENCES)
@pytest.mark.parametrize("timeout", [0.0, 0.02])
def test_a_wait_ends_when_its_time_is_up(run: Run, timeout: float) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0, 1))
        async with asyncio.timeout(SOON):
            tail = await subject.bookie.wait_tail(LEDGER, 0, timeout)
        assert (tail.frame, tail.hint, tail.fenced) == (frame(1), 0, False)

    run(check)


def test_many_waits_are_woken_together(run: Run) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        waits = [asyncio.create_task(bookie.wait_tail(LEDGER, -1, 60.0)) for _ in range(20)]
        await asleep(bookie, waits[0])
        await bookie.add(LEDGER, KEY, run_of(0, 1))
        async with asyncio.timeout(SOON):
            assert {tail.hint for tail in await asyncio.gather(*waits)} == {0}

    run(check)

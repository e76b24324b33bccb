"""A bookie off duty takes no new entries, and denies nothing (B15)."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import NoSuchEntryError, ReadOnlyBookieError
from quire.storage.serving.obedient import CHANGE_SECONDS, ObedientBookie, turn
from quire.testing.bookie import MemoryBookie
from tests.storage.scene import BOOKIE, KEY, run_of
from tests.support.virtual import virtually


def obedient() -> ObedientBookie:
    inner = MemoryBookie(BOOKIE)
    return ObedientBookie(inner, BOOKIE, lambda ledger: ledger in inner.ledgers)


async def refuses(bookie: ObedientBookie, ledger: int) -> bool:
    try:
        await bookie.add(ledger, KEY, run_of(ledger, 0))
    except ReadOnlyBookieError:
        return True
    return False


@pytest.mark.parametrize("begin", [0, 123_456_789, 2**62])
def test_consecutive_ledgers_leave_evenly(begin: int) -> None:
    turns = [turn(ledger) for ledger in range(begin, begin + 1000)]
    for tenth in range(10):
        assert 90 <= sum(tenth / 10 <= each < (tenth + 1) / 10 for each in turns) <= 110


def test_a_new_ledger_is_refused_at_once_and_a_known_one_in_its_turn() -> None:
    async def main() -> None:
        bookie = obedient()
        await bookie.add(7, KEY, run_of(7, 0))
        bookie.take_none("away")
        assert await refuses(bookie, 8)
        assert not await refuses(bookie, 7)
        await asyncio.sleep(CHANGE_SECONDS * turn(7) - 0.001)
        bookie.take_none("drain")  # another wish of the kind does not begin anew
        assert not await refuses(bookie, 7)
        await asyncio.sleep(0.001)
        assert await refuses(bookie, 7)
        bookie.take_entries()
        assert not await refuses(bookie, 7)
        assert not await refuses(bookie, 8)

    virtually(main)


def test_all_writers_have_left_in_time() -> None:
    async def main() -> None:
        bookie = obedient()
        for ledger in range(200):
            await bookie.add(ledger, KEY, run_of(ledger, 0))
        bookie.take_none("away")
        await asyncio.sleep(CHANGE_SECONDS)
        assert all([await refuses(bookie, ledger) for ledger in range(200)])

    virtually(main)


def test_all_other_requests_go_on() -> None:
    async def main() -> None:
        bookie = obedient()
        await bookie.add(7, KEY, run_of(7, 0))
        bookie.take_none("away")
        await asyncio.sleep(CHANGE_SECONDS)
        assert await bookie.read(7, 0, 0) == run_of(7, 0)
        assert await bookie.sync(7, KEY, 0, 0) == [(0, 0)]
        assert (await bookie.read_tail(7, fence_key=KEY)).fenced
        await bookie.add(7, KEY, run_of(7, 1), recovery=True)
        with pytest.raises(NoSuchEntryError):
            await bookie.read(7, 2, 2, fence_key=KEY)
        assert await bookie.list_entries(7) == [(0, 1)]
        assert await bookie.list_ledgers() == [(7, 7)]
        assert (await bookie.wait_tail(7, 5, 1.0)).fenced

    virtually(main)


def test_the_account_says_so() -> None:
    async def main() -> None:
        bookie = obedient()
        assert (await bookie.info()).writable
        bookie.take_none("drain")
        assert await refuses(bookie, 7)
        info = await bookie.info()
        assert not info.writable
        named = {name: value for name, value in info.counters.items() if "standing" in name}
        assert named == {
            "standing_away": 0,
            "standing_draining": 1,
            "standing_adds_refused": 1,
        }

    virtually(main)

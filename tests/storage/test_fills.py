"""Adds of one missing entry at the same time: one is held, and the other compared with it."""

from __future__ import annotations

import asyncio

import pytest

from quire.entry import OPEN_KEY
from quire.errors import CorruptEntryError
from quire.run import scan_run
from quire.storage.fills import Fills, meets
from tests.storage.scene import Scene, drive, run_of


@pytest.mark.parametrize("recovery", [False, True])
def test_of_two_adds_into_a_gap_one_is_refused(recovery: bool) -> None:
    async def main() -> None:
        scene = Scene()
        node = await scene.start()
        await node.add(7, OPEN_KEY, run_of(7, 0, 1, 2, 4, 5, 6))
        first, second = (run_of(7, 3, payload=each) for each in (b"AAAA", b"BBBB"))
        outcomes = await asyncio.gather(
            node.add(7, OPEN_KEY, first, recovery=recovery),
            node.add(7, OPEN_KEY, second, recovery=recovery),
            return_exceptions=True,
        )
        assert [type(each) for each in outcomes] == [type(None), CorruptEntryError]
        assert await node.read(7, 3, 3) == first
        await scene.close()

    drive(main())


def test_a_run_of_other_entries_needs_no_second_comparison() -> None:
    fills = Fills()
    with fills.watch(7) as seen, fills.watch(7) as others:
        fills.note(scan_run(run_of(7, 3, 4)))
        fills.note(scan_run(run_of(8, 9)))
        assert seen == others == [range(3, 5)]
        assert meets(scan_run(run_of(7, 4, 5)), seen)
        assert not meets(scan_run(run_of(7, 5, 6)), seen)
        assert not meets(scan_run(run_of(7, 1, 2)), seen)
    fills.note(scan_run(run_of(7, 5)))
    assert seen == [range(3, 5)]

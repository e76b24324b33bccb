"""The gateway of durable entries: what is applied is in order, or the bookie ends."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence

import pytest

from quire.run import ScannedRun, scan_run
from quire.storage.entries.ledger_storage import LedgerStorage
from tests.sim.disk import SimDisk
from tests.storage.scene import BOOKIE, SMALL, drive, run_of


@pytest.mark.parametrize("ids", [array("q", [2, 1]), array("q", [1, 1]), range(2, 0, -1)])
def test_a_run_that_is_not_in_order_is_not_applied(ids: Sequence[int]) -> None:
    """Reads search a run by bisection: they would not find entries that it holds."""

    async def main() -> None:
        storage = LedgerStorage(SimDisk(random.Random(1)).mount(), BOOKIE, SMALL)
        sound = scan_run(run_of(7, 1, 2))
        storage.memory.apply_run(sound)
        with pytest.raises(AssertionError, match="ledger 7 is not in order"):
            storage.memory.apply_run(ScannedRun(7, sound.data, ids, sound.bounds, sound.lac))
        assert storage.state(7).last == 2

    drive(main())

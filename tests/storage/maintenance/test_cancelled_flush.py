"""A flush that is cut short forgets nothing: what it was to write is written by the next one."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest

from quire.entry import key_check
from quire.errors import LedgerFencedError, UnauthorizedError
from quire.storage.maintenance.replicas_port import Order
from tests.storage.maintenance.fakes import FAST, FakeCopies, FakeOrders, all_to
from tests.storage.scene import KEY, OTHER_KEY, Scene, drive, run_of


@pytest.mark.parametrize("turns", range(12))
def test_a_mender_that_is_closed_during_a_flush_loses_no_fence_and_no_key(turns: int) -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        node = await scene.start()
        await node.add(8, KEY, run_of(8, 0))
        assert (await node.read_tail(8, fence_key=KEY)).fenced
        await node.add(9, KEY, run_of(9, 0))
        storage = node._storage
        flush, has_begun = storage._flush, asyncio.Event()

        async def begin(position: Any) -> int:
            has_begun.set()
            return await flush(position)

        with patch.object(storage, "_flush", begin):
            copies, orders = FakeCopies({50: all_to(9)}), FakeOrders([Order(50, key_check(KEY))])
            mender = node.mender(copies.open, orders)
            mender.start()
            await has_begun.wait()
            for _ in range(turns):
                await asyncio.sleep(0)
            await mender.close()
        await scene.close()
        node = await scene.start()
        with pytest.raises(LedgerFencedError):
            await node.add(8, KEY, run_of(8, 1))
        with pytest.raises(UnauthorizedError):
            await node.add(9, OTHER_KEY, run_of(9, 1))
        await scene.close()

    drive(main())


def test_a_flush_that_is_cancelled_is_done_by_the_next_one() -> None:
    async def main() -> None:
        scene = Scene(options=FAST)
        node = await scene.start()
        await node.add(8, KEY, run_of(8, 0))
        assert (await node.read_tail(8, fence_key=KEY)).fenced
        flushing = asyncio.ensure_future(node._engine.upkeep.flush())
        await asyncio.sleep(0)
        flushing.cancel()
        await asyncio.wait([flushing])
        assert flushing.cancelled()
        await scene.close()
        node = await scene.start()
        with pytest.raises(LedgerFencedError):
            await node.add(8, KEY, run_of(8, 1))
        await scene.close()

    drive(main())

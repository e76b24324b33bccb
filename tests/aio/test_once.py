"""An event that happens once."""

from __future__ import annotations

import asyncio

from quire.aio.once import Once
from tests.support.virtual import virtually


def test_all_go_on_that_wait_and_all_that_come() -> None:
    async def main() -> None:
        once = Once()
        assert not once.has_happened
        waiting = [asyncio.create_task(once.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        assert once.is_awaited
        waiting[0].cancel()
        await asyncio.gather(waiting[0], return_exceptions=True)
        assert once.is_awaited
        once.happen()
        await asyncio.gather(*waiting[1:])
        await once.wait()
        once.happen()
        assert once.has_happened

    virtually(main)


def test_a_caller_that_gave_up_is_forgotten() -> None:
    async def main() -> None:
        once = Once()
        waiting = asyncio.create_task(once.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not once.is_awaited

    virtually(main)

"""One timer, the earliest deadline."""

from __future__ import annotations

import asyncio

from quire.aio.alarm import Alarm
from tests.support.virtual import virtually


def test_it_rings_at_the_earliest_time_asked_for() -> None:
    async def main() -> None:
        loop, rung = asyncio.get_running_loop(), list[float]()
        alarm = Alarm(lambda: rung.append(loop.time()))
        for due in (5.0, None, 3.0, 7.0):
            alarm.set(due)
        await asyncio.sleep(10)
        assert rung == [3.0]
        alarm.set(12.0)
        alarm.cancel()
        await asyncio.sleep(10)
        assert rung == [3.0]

    virtually(main)

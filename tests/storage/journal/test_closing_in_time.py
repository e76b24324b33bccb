"""A disk that hangs when its bookie is told to stop ends the process, and not the other way."""

from __future__ import annotations

import asyncio
from typing import Any

from quire.storage.server import close_in_time
from tests.support.virtual import virtually


class Hanging:
    """A disk whose last job never ends, or a disk that closes at once."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.is_closed = False

    async def close(self) -> None:
        await asyncio.sleep(self.seconds)
        self.is_closed = True


def test_a_disk_that_does_not_close_in_time_ends_the_process() -> None:
    async def main() -> None:
        for seconds, ends in ((1.0, False), (1e9, True)):
            disk: Any = Hanging(seconds)
            told: list[BaseException] = []
            await close_in_time(disk, 30.0, told.append)
            assert disk.is_closed is not ends
            assert [type(each) for each in told] == [TimeoutError] * ends

    virtually(main)

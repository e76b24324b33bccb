"""Take a log over and print all of it: `python -m tests.netns.read_log STORE LOG`."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass

import quire


@dataclass(frozen=True)
class Line:
    """A record as the checks of the soak look at it."""

    position: str
    offset: int
    epoch: int
    payload: bytes


def parse(text: str) -> Line:
    position, offset, epoch, payload = json.loads(text)
    return Line(position, offset, epoch, payload.encode())


async def main(store: str, log: str) -> None:
    async with quire.connect(store) as client:
        async with await client.open_log(log):
            pass
        async for record in await client.read_log(log):
            line = [str(record.position), record.offset, record.epoch, record.payload.decode()]
            print(json.dumps(line))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

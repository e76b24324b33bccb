"""A leader that is there to be killed: `python -m quire.bench.doomed STORE` leads until it is."""

from __future__ import annotations

import asyncio
import sys

from quire.bench.crash import LEADS, LOG, stand
from quire.connection import connect


async def lead(store: str) -> None:
    """Be elected, open the log, print `LEADS`, and append until killed."""
    async with connect(store) as client, stand(client, "victim").lead():
        log = await client.open_log(LOG)
        await log.append(b"first")
        sys.stdout.buffer.write(LEADS)
        sys.stdout.flush()
        while True:
            await log.append(bytes(1024))
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(lead(sys.argv[1]))

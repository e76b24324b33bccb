"""A primary and its backups: each process holds the same counters, one of them changes them.

    quire cluster up                                  # in another terminal
    python examples/primary_backup.py anna            # in several terminals; kill the primary

Every process follows the log and builds its state from it, the primary too. So there is one way
from a record to the state, and a backup has almost nothing to catch up on.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from contextlib import suppress

import quire

LOG = "counters"


class Replica:
    """One process: its counters, and the offset of the next record to apply."""

    def __init__(self, client: quire.Client, name: str) -> None:
        self.client = client
        self.name = name
        self.counters: Counter[str] = Counter()
        self.applied = 0
        self._moved = asyncio.Condition()

    async def follow(self) -> None:
        """Apply every record of the log, as it arrives."""
        async for record in self.client.read_log(LOG, follow=True, wait_for_log=True):
            async with self._moved:
                self.counters[record.payload.decode()] += 1
                self.applied = record.offset + 1
                self._moved.notify_all()

    async def reached(self, offset: int) -> None:
        """Return when every record before an offset is applied."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.applied >= offset)

    async def lead(self, pause: float, session_timeout: float) -> None:
        """Count whenever this process is the primary; wait for its turn otherwise."""
        while True:
            turn = self.client.lead_log(LOG, candidate=self.name, session_timeout=session_timeout)
            async with turn as log:
                await self.reached(log.next_offset)  # all that earlier primaries wrote
                print(f"{self.name} leads at epoch {log.epoch}: {dict(self.counters)}", flush=True)
                while True:
                    await log.append(self.name.encode())
                    await self.reached(log.next_offset)
                    await asyncio.sleep(pause)


async def main(store: str, name: str, pause: float = 0.5, session_timeout: float = 2.0) -> None:
    async with quire.connect(store) as client, asyncio.TaskGroup() as tasks:
        replica = Replica(client, name)
        tasks.create_task(replica.follow())
        tasks.create_task(replica.lead(pause, session_timeout))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main("./quire-data", sys.argv[1]))

"""One process of the soak: stands for election, writes unique records while it leads, follows else.

Prints one line per event, which the driver (`tests/soak.py`) reads:

    acked <position> <payload>      an append of ours was acknowledged
    read <position> <payload>       the log gave us this record; each exactly once, in order
    leading <epoch> | deposed
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools

import quire
from quire.errors import OutcomeUnknownError, QuireError, StoreUnavailableError
from quire.ledger.options import LedgerOptions

LOG = "soak"
SESSION_SECONDS = 1.5
IN_FLIGHT = 16
ENTRIES_PER_SEGMENT = 10
"""Few, so that most followers begin while the log rolls."""


class Worker:
    client: quire.Client

    def __init__(self, name: str, give_up: float) -> None:
        self.name = name
        self.options = quire.LogOptions(open_timeout=give_up, roll_entries=ENTRIES_PER_SEGMENT)
        self.next: quire.Position | int = quire.BEGINNING
        self.passes = itertools.count()
        self.numbers = itertools.count()

    async def run(self, client: quire.Client) -> None:
        self.client = client
        while True:
            following = asyncio.create_task(self.follow())
            try:
                election = self.client.election(LOG, self.name, session_timeout=SESSION_SECONDS)
                async with election.lead() as leadership:
                    await self.lead(leadership)
            except QuireError as error:
                print(f"deposed {type(error).__name__}: {error}", flush=True)
            finally:
                following.cancel()
                await asyncio.wait([following])
                if not following.cancelled():
                    following.result()

    async def follow(self) -> None:
        """Go on where the last pass ended: from a position or, every other time, an offset."""
        by_offset = next(self.passes) % 2
        async with await self.client.read_log(
            LOG, self.next, follow=True, wait_for_log=True
        ) as reader:
            async for record in reader:
                at = record.position
                print(f"read {at} {record.payload.decode()}", flush=True)
                behind = quire.Position(at.segment, at.entry, at.slot + 1)
                self.next = record.offset + 1 if by_offset else behind

    async def lead(self, leadership: quire.Leadership) -> None:
        log = await self.client.open_log(LOG, self.options)
        print(f"leading {log.epoch}", flush=True)
        try:
            while not leadership.is_lost:
                batch = [f"{self.name}-{next(self.numbers)}" for _ in range(IN_FLIGHT)]
                futures = [await log.submit(payload.encode()) for payload in batch]
                for payload, future in zip(batch, futures, strict=True):
                    print(f"acked {await future} {payload}", flush=True)
                await asyncio.sleep(0.02)
        except OutcomeUnknownError:
            await asyncio.gather(*futures, return_exceptions=True)
            raise
        finally:
            log.abandon()


async def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--store", required=True)
    arguments.add_argument("--name", required=True)
    arguments.add_argument("--give-up", type=float, default=30.0, help="seconds without bookies")
    options = arguments.parse_args()
    limits = LedgerOptions(append_timeout=options.give_up)
    worker = Worker(options.name, options.give_up)
    while True:
        try:
            async with quire.connect(options.store, options=limits) as client:
                await worker.run(client)
        except StoreUnavailableError as error:  # it may be electing a leader of its own just now
            print(f"waiting {error}", flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())

"""One process of the soak: stands for election, writes unique records while it leads, follows else.

Prints one line per event, which the driver (`tests/soak.py`) reads:

    acked <position> <payload>      an append of ours was acknowledged
    read <position> <payload>       the log gave us this record; each exactly once, in order
    leading <epoch> | deposed

With `--history FILE` it also writes what the judges read (tests/judges/history.py): each append
before it is sent and when it is answered, each record that it reads, and the linearizable ends that
it asks for all the time. Some of its appends are conditional; some of these ask for an offset that
the log has passed, and must be refused.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import time
from dataclasses import replace
from pathlib import Path

import quire
from quire.errors import (
    NotFoundError,
    OutcomeUnknownError,
    QuireError,
    RetryError,
    StoreUnavailableError,
    TailConflictError,
)
from quire.ledger.options import LedgerOptions
from quire.ledgers import Replication
from tests.judges.history import Journal, Kind, Operation, Outcome, value_of

LOG = "soak"
SESSION_SECONDS = 1.5
IN_FLIGHT = 16
ENTRIES_PER_SEGMENT = 10
"""Few, so that most followers begin while the log rolls."""
LOOK_SECONDS = 0.1
"""Between two linearizable ends that a process asks for."""
now = time.monotonic_ns
"""One clock for all processes of a machine."""


class Worker:
    client: quire.Client

    def __init__(self, name: str, give_up: float, history: Path, replication: Replication) -> None:
        self.name = name
        self.options = quire.LogOptions(
            replication=replication, open_timeout=give_up, roll_entries=ENTRIES_PER_SEGMENT
        )
        self.next: quire.Position | int = quire.BEGINNING
        self.passes = itertools.count()
        self.numbers = itertools.count()
        self.journal = Journal(history, name)

    async def run(self, client: quire.Client) -> None:
        self.client = client
        while True:
            following = asyncio.create_task(self.follow())
            looking = asyncio.create_task(self.look())
            try:
                election = self.client.election(LOG, self.name, session_timeout=SESSION_SECONDS)
                async with election.lead() as leadership:
                    await self.lead(leadership)
            except QuireError as error:
                print(f"deposed {type(error).__name__}: {error}", flush=True)
            finally:
                for task in (following, looking):
                    task.cancel()
                await asyncio.wait([following, looking])
                for task in (following, looking):
                    if not task.cancelled():
                        task.result()

    # -- reading ---------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Follow the log, also when too few bookies answer for a while."""
        while True:
            try:
                return await self.follow_on()
            except (RetryError, NotFoundError) as error:
                print(f"reads again {type(error).__name__}: {error}", flush=True)
                await asyncio.sleep(LOOK_SECONDS)

    async def follow_on(self) -> None:
        """Go on where the last pass ended: from a position or, every other time, an offset."""
        number = next(self.passes)
        by_offset = number % 2
        called = now()
        async with await self.client.read_log(
            LOG, self.next, follow=True, wait_for_log=True
        ) as reader:
            async for record in reader:
                called = self.note_read(f"pass{number}", record, called)
                at = record.position
                print(f"read {at} {record.payload.decode()}", flush=True)
                behind = quire.Position(at.segment, at.entry, at.slot + 1)
                self.next = record.offset + 1 if by_offset else behind

    def note_read(self, role: str, record: quire.Record, called: int) -> int:
        """Add a record to the history; return when it came."""
        process, number = self.journal.number(role)
        returned = now()
        self.journal.write(
            Operation(
                process=process,
                number=number,
                kind=Kind.READ,
                called=called,
                returned=returned,
                outcome=Outcome.OK,
                values=(value_of(record.payload),),
                offset=record.offset,
            )
        )
        return returned

    async def look(self) -> None:
        """Ask for the end of the log, again and again."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            called = now()
            try:
                tail = await self.client.log_end(LOG, linearizable=True)
            except QuireError:
                continue  # there is no log yet, its leader died just now, or bookies are away
            process, number = self.journal.number("end")
            self.journal.write(
                Operation(
                    process=process,
                    number=number,
                    kind=Kind.END,
                    called=called,
                    returned=now(),
                    outcome=Outcome.OK,
                    offset=tail.offset,
                )
            )

    # -- writing ---------------------------------------------------------------------------------

    async def lead(self, leadership: quire.Leadership) -> None:
        log = await self.client.open_log(LOG, self.options)
        print(f"leading {log.epoch}", flush=True)
        try:
            while not leadership.is_lost:
                batch = [f"{self.name}-{next(self.numbers)}" for _ in range(IN_FLIGHT)]
                calls = [self.call(payload) for payload in batch]
                futures = []
                for payload in batch:
                    futures.append(await log.submit(payload.encode()))  # noqa: PERF401
                for payload, call, future in zip(batch, calls, futures, strict=True):
                    self.answer(payload, call, *await future)
                await self.append_if(log, log.next_offset)
                await self.append_if(log, log.next_offset - 1)
                await asyncio.sleep(0.02)
        except OutcomeUnknownError:
            await asyncio.gather(*futures, return_exceptions=True)
            raise
        finally:
            log.abandon()

    async def append_if(self, log: quire.Log, offset: int) -> None:
        """Append a record that is to get an offset, or none."""
        payload = f"{self.name}-{next(self.numbers)}"
        call = self.call(payload, offset)
        try:
            told = await log.append(payload.encode(), expected_offset=offset)
        except TailConflictError:
            self.journal.write(replace(call, returned=now(), outcome=Outcome.FAILED))
        else:
            self.answer(payload, call, *told)

    def call(self, payload: str, expected: int | None = None) -> Operation:
        """Note an append before it is sent."""
        process, number = self.journal.number("append")
        call = Operation(
            process=process,
            number=number,
            kind=Kind.APPEND,
            called=now(),
            values=(value_of(payload.encode()),),
            expected=expected,
        )
        self.journal.write(call)
        return call

    def answer(self, payload: str, call: Operation, at: quire.Position, offset: int) -> None:
        """Note that an append was acknowledged."""
        done = replace(call, returned=now(), outcome=Outcome.OK, offset=offset, place=tuple(at))
        self.journal.write(done)
        print(f"acked {at} {payload}", flush=True)


async def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--store", required=True)
    arguments.add_argument("--name", required=True)
    arguments.add_argument("--give-up", type=float, default=30.0, help="seconds without bookies")
    arguments.add_argument("--history", type=Path, default=Path(os.devnull))
    arguments.add_argument("--replication", type=Replication.parse, default="3/3/2")
    options = arguments.parse_args()
    limits = LedgerOptions(append_timeout=options.give_up)
    worker = Worker(options.name, options.give_up, options.history, options.replication)
    while True:
        try:
            async with quire.connect(options.store, options=limits) as client:
                await worker.run(client)
        except StoreUnavailableError as error:  # it may be electing a leader of its own just now
            print(f"waiting {error}", flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())

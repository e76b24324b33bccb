"""Processor time of an append at a client, between its call and its answer.

    python -m benchmarks.sending [--ledgers 250] [--in-flight 1] [--size 1024] [--seconds 4]

Writers append to three bookies each, over the links of production. At the end of each link is no
connection: a message is answered as a whole, in the loop's next turn. So no bookie and no system
call is in the figure. The processor's time does not count other work on the machine, but caches
that others use make it longer: compare programs in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
from collections.abc import Callable, Hashable
from typing import Final

from quire.aio.later import Later
from quire.bench import appends
from quire.bookie import BookieAddress
from quire.entry import BookieId, DigestKind, Sealer, key_check
from quire.ledger.ledger_record import LedgerRecord
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.registrations import Registered
from quire.ledger.remote import RemoteBookie
from quire.ledger.roster import BookieRoster
from quire.ledger.stored_records import StoredRecords
from quire.ledger.writer import LedgerWriter
from quire.metastore.memory import MemoryStore
from quire.metastore.store import MetadataStore
from quire.wire import bookie_pb2 as pb
from quire.wire.run_calls import RunCall

BOOKIES: Final = ("a" * 32, "b" * 32, "c" * 32)


class Agreeing:
    """Implements `RunCall`: all runs of a message are settled once it is written."""

    end: None = None

    def __init__(self, sent: Callable[[], int]) -> None:
        """`sent` returns how many runs the stream has sent: a decoder would be in the figure."""
        self._sent = sent
        self._settled = 0
        self._said = 0
        self._news = asyncio.Event()

    async def write(self, *parts: bytes) -> None:
        """See `RunCall.write`."""
        self._settled = self._sent()
        self._news.set()

    async def read(self) -> pb.AddReply | None:
        """See `RunCall.read`."""
        while self._said == self._settled:
            self._news.clear()
            await self._news.wait()
        self._said = self._settled
        return pb.AddReply(settled=self._said)

    def cancel(self) -> None:
        """See `RunCall.cancel`."""


class AgreeingBookie(RemoteBookie):
    """A bookie that agrees with everything."""

    def _open_call(self, stream: str) -> RunCall:
        return Agreeing(lambda: 0 if self._stream is None else self._stream._account.last_sent)


class Three:
    """Implements `Registrations`: three bookies, forever."""

    def __init__(self, store: MetadataStore) -> None:
        self._never = asyncio.Event()

    async def names(self) -> list[BookieId]:
        """See `Registrations.names`."""
        return list(BOOKIES)

    async def wait_names(self, names: list[BookieId]) -> None:
        """See `Registrations.wait_names`."""
        await self._never.wait()

    async def read(self, bookie: BookieId) -> Registered:
        """See `Registrations.read`."""
        return Registered(lambda: BookieAddress(bookie, "127.0.0.1:1", runs="127.0.0.1:2"), 0)

    async def wait(self, bookie: BookieId, version: Hashable) -> None:
        """See `Registrations.wait`."""
        await self._never.wait()


async def measure(ledgers: int, in_flight: int, size: int, seconds: float) -> float:
    """Return the microseconds of an append."""
    options = LedgerOptions()
    later = Later(options.lac_idle)
    store = MemoryStore()
    records = StoredRecords(store, random.Random(1))
    roster = BookieRoster(store, AgreeingBookie, registrations=Three)
    await roster.start()
    writers = list[LedgerWriter]()
    for number in range(ledgers):
        sealer = Sealer(number, DigestKind.CRC32C, b"")
        metadata = LedgerMetadata(
            ledger=sealer.ledger,
            replication=Replication(3, 3, 2),
            digest=sealer.kind,
            key_check=key_check(sealer.access_key),
            fragments=(Fragment(0, BOOKIES),),
        )
        created = await records.create(metadata)
        writers.append(
            LedgerWriter(
                LedgerRecord(records, created.metadata, created.version),
                *(roster, sealer, options, random.Random(number)),
                later=later,
            )
        )
    workload = appends.Workload(in_flight, ledgers=ledgers)
    gc.collect()
    gc.freeze()
    figures = await appends.measure_appends(writers, workload, seconds, os.urandom(size))
    for writer in writers:
        writer.abandon()
    await roster.close()
    return figures.cpu_us


def main() -> None:
    """Measure, and print the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ledgers", type=int, default=250, help="ledgers that are written")
    parser.add_argument("--in-flight", type=int, default=1, help="entries of each")
    parser.add_argument("--size", type=int, default=1024, help="bytes of an entry")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long")
    given = parser.parse_args()
    gc.set_threshold(10_000, 20, 20)
    taken = asyncio.run(measure(given.ledgers, given.in_flight, given.size, given.seconds))
    print(f"{taken:.1f} µs of the processor an append, {given.ledgers} ledgers")


if __name__ == "__main__":
    main()

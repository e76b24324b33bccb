"""An auditor with a million ledgers: memory, time to index, and time from a loss to the first move.

    python -m benchmarks.million_ledgers [--ledgers 1000000] [--bookies 50] [--stored 20000]

Records are made up as they are read, and decoded as from a store, so the figures are the auditor's
own; the metadata store is in memory, and bookies copy nothing. Bookies tell outlines as over
the wire, and all are whole: that is a sweep without news. With `--stored` so many records are
put into a SQLite file, too, and read from it: a store's pace decides how long a first survey takes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

from quire.bookie import BookieAddress
from quire.entry import BookieId, DigestKind, LedgerId
from quire.errors import NoSuchLedgerError
from quire.healing.audit import Audit
from quire.healing.holes import OUTLINED_MAX, SWEPT_PER_SECOND
from quire.healing.survey import Survey
from quire.healing.urgency import work_of
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.ledger.records import LedgerRecords, VersionedMetadata
from quire.ledger.roster import Bookies
from quire.ledger.stored_records import StoredRecords
from quire.metastore import create_store
from quire.metastore.changes import Create
from quire.metastore.layout import LEDGERS_PER_SHARD, MOVES, bookie_path, ledger_path
from quire.metastore.memory import MemoryStore
from quire.metastore.registration import encode_registration
from quire.outline import Outline
from quire.repair.orders import stored_orders
from quire.wire import bookie_pb2 as pb
from quire.wire.codec import decode_outlines, encode_outlines

REPLICATION: Final = Replication(3, 3, 2)
CHANGES: Final = 500
"""Records that one transaction creates."""


def megabytes() -> float:
    """Return the most memory that the process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class MadeRecords:
    """The records of closed ledgers, as the id of the ledger draws them."""

    def __init__(self, ledgers: int, bookies: Sequence[BookieId]) -> None:
        self.ledgers = ledgers
        self._bookies = bookies

    def metadata(self, ledger: LedgerId) -> LedgerMetadata:
        """Return what a writer would have left."""
        names = random.Random(ledger).sample(self._bookies, REPLICATION.ensemble)
        return LedgerMetadata(
            *(ledger, REPLICATION, DigestKind.CRC32C, "0" * 64, (Fragment(0, tuple(names)),)),
            state=LedgerState.CLOSED,
            last_entry=99,
            length=100_000,
            created_ms=1_700_000_000_000,
            token=f"{ledger:032x}",
        )

    async def read(self, ledger: LedgerId) -> VersionedMetadata:
        """See `LedgerRecords.read`; the record is decoded as from a store."""
        if not 0 <= ledger < self.ledgers:
            raise NoSuchLedgerError(ledger)
        path = ledger_path(ledger)
        return VersionedMetadata(LedgerMetadata.decode(path, self.metadata(ledger).encode()), 1)

    async def list(self, after: LedgerId = -1) -> AsyncIterator[Sequence[LedgerId]]:
        """See `LedgerRecords.list`."""
        for first in range(0, self.ledgers, LEDGERS_PER_SHARD):
            page = range(max(first, after + 1), min(first + LEDGERS_PER_SHARD, self.ledgers))
            if page:
                yield page


class WholeBookies:
    """Bookies that hold every entry of the ledgers, as far as they are asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.bytes = 0

    def bookie(self, bookie: BookieId) -> WholeBookies:
        """Return the one for all."""
        return self

    async def outlines(self, ledgers: Sequence[LedgerId]) -> list[Outline | None]:
        """See `Bookie.outlines`."""
        request = pb.OutlinesRequest(bookie="0" * 32, ledgers=ledgers).SerializeToString()
        reply = encode_outlines([Outline(0, 99, 100)] * len(ledgers)).SerializeToString()
        self.asked += len(ledgers)
        self.bytes += len(request) + len(reply)
        return decode_outlines(pb.OutlinesReply.FromString(reply))


async def sweep(audit: Audit, told: WholeBookies, ledgers: int, names: Sequence[BookieId]) -> None:
    """Print what it costs to compare all ledgers by outlines."""
    start, rounds = time.process_time(), -(-ledgers // OUTLINED_MAX)
    for _ in range(rounds):
        await audit.holes.sweep(OUTLINED_MAX / SWEPT_PER_SECOND, set(names))
    seconds = time.process_time() - start
    assert told.asked == REPLICATION.write_quorum * ledgers
    print(
        f"a sweep: {rounds} rounds of {seconds / rounds * 1000:.0f} ms, "
        f"{told.bytes / told.asked:.1f} bytes a copy, {told.bytes / 1e6:.0f} MB in all"
    )


async def measure(ledgers: int, count: int) -> None:
    """Build the index, lose a bookie, and print the figures."""
    store = MemoryStore()
    bookies = [f"{number:032x}" for number in range(count)]
    for each in bookies:
        address = BookieAddress(each, f"{each[-4:]}:1")
        await store.create(bookie_path(each), encode_registration(address))
    records, told = cast(LedgerRecords, MadeRecords(ledgers, bookies)), WholeBookies()
    audit = Audit(
        *(store, records, cast(Bookies, told)),
        name="benchmark",
        epoch=1,
        delay=0.0,
        clock=time.time,
        rng=random.Random(1),
    )
    gc.collect()
    before, start = megabytes(), time.perf_counter()
    await audit.build()
    built = time.perf_counter() - start
    print(f"index of {ledgers:,} ledgers: {megabytes() - before:.0f} MB, built in {built:.1f} s")
    print(f"  of these reading and decoding take {await reading(records, ledgers):.1f} s")
    audit.holes.check = lambda ledgers: None  # type: ignore[method-assign]  # no bookie to ask
    await sweep(audit, told, ledgers, bookies)
    start = time.perf_counter()
    await audit.round()
    print(f"a round without news: {time.perf_counter() - start:.3f} s")

    await store.delete(bookie_path(bookies[0]))
    await audit.round()  # the bookie is silent; with a delay of 0, the next look finds it lost
    start = time.perf_counter()
    await audit.round()
    moved = time.perf_counter() - start
    asked = 0
    for each in await store.children(MOVES):
        asked += len((await stored_orders(store, each).read()).open)
    print(f"from the end of the delay to {asked} requests: {moved:.2f} s")
    start = time.perf_counter()
    work = work_of(audit.survey.index, {bookies[0]})
    seconds = time.perf_counter() - start
    print(f"  of these {len(work.jobs):,} ledgers by urgency: {seconds:.2f} s")


async def reading(records: LedgerRecords, ledgers: int) -> float:
    """Return how long it takes to make, encode and decode the records alone."""
    some = min(ledgers, 20_000)
    start = time.perf_counter()
    for ledger in range(some):
        await records.read(ledger)
    return (time.perf_counter() - start) * ledgers / some


async def measure_store(stored: int) -> None:
    """Print how fast a survey reads from SQLite."""
    made = MadeRecords(stored, [f"{number:032x}" for number in range(50)])
    with tempfile.TemporaryDirectory() as directory:
        store = await create_store(f"sqlite://{Path(directory) / 'metadata.db'}")
        try:
            for first in range(0, stored, CHANGES):
                some = range(first, min(first + CHANGES, stored))
                await store.commit(
                    [Create(ledger_path(each), made.metadata(each).encode()) for each in some]
                )
            survey = Survey(StoredRecords(store, random.Random(1)))
            start = time.perf_counter()
            async for _ in survey.build():
                pass
            seconds = time.perf_counter() - start
            assert len(survey.index) == stored
            pace = stored / seconds
            print(f"SQLite: {pace:,.0f} records a second, a million in {1e6 / pace / 60:.1f} min")
        finally:
            await store.close()


async def main(options: Any) -> None:
    """Run all parts."""
    await measure(options.ledgers, options.bookies)
    if options.stored:
        await measure_store(options.stored)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ledgers", type=int, default=1_000_000)
    parser.add_argument("--bookies", type=int, default=50)
    parser.add_argument("--stored", type=int, default=20_000)
    asyncio.run(main(parser.parse_args()))

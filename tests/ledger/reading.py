"""Ledgers planted for readers, on virtual time, and who is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from quire.entry import LedgerId
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from tests.support.memory_cluster import MemoryCluster
from tests.support.planted_ledger import PASSWORD, PlantedLedger, payload
from tests.support.virtual import virtually

Body = Callable[[MemoryCluster], Awaitable[None]]


def scenario(size: int, body: Body, options: LedgerOptions | None = None) -> None:
    async def main() -> None:
        async with MemoryCluster(size, options=options) as cluster:
            await body(cluster)

    virtually(main)


async def opened(planted: PlantedLedger) -> LedgerReader:
    return await planted.cluster.catalog.open_without_recovery(planted.ledger, password=PASSWORD)


async def closed(planted: PlantedLedger, entries: int) -> LedgerReader:
    """Plant `entries` everywhere by the first fragment, close the ledger, and open it."""
    metadata = await planted.metadata()
    for fragment in metadata.fragments:
        above = [each.first for each in metadata.fragments if each.first > fragment.first]
        ids = range(fragment.first, min([*above, entries]))
        for position, bookie in enumerate(fragment.bookies):
            mine = [e for e in ids if metadata.replication.is_written_to(e, position)]
            await planted.add(bookie, *mine)
    await planted.put(metadata.closed(entries - 1, 10 * entries))
    return await opened(planted)


async def ids(reader: LedgerReader, first: int = 0, last: int | None = None) -> list[int]:
    entries = [entry async for entry in reader.read(first, last)]
    assert [entry.payload for entry in entries] == [payload(entry.entry) for entry in entries]
    return [entry.entry for entry in entries]


def count_reads(cluster: MemoryCluster) -> Counter[str]:
    counts: Counter[str] = Counter()

    def counting(name: str) -> Callable[[str, LedgerId], Awaitable[None]]:
        async def before(method: str, ledger: LedgerId) -> None:
            counts[name] += method == "read"

        return before

    for name, bookie in cluster.bookies.items():
        bookie.before = counting(name)
    return counts


LAYOUTS = [Replication(1, 1, 1), Replication(3, 3, 2), Replication(3, 2, 2), Replication(5, 3, 2)]

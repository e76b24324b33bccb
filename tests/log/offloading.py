"""A log worth offloading, and its offload. Files are real, so tests run on asyncio's own loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quire.log.maintenance.ingest import Ingest
from quire.log.maintenance.offload import Offload
from quire.log.manifest.manifest import Job, LogManifest
from quire.log.manifest.options import LogOptions
from quire.log.reading.bounds import Bounds
from quire.log.records.batch import UNPLACED, encode_batch
from quire.log.records.position import Record
from quire.log.records.producers import ProducerSequence
from tests.support.log_cluster import NAME, Client, LogCluster, append_all, numbered


async def write_log(cluster: LogCluster, **options: Any) -> list[Record]:
    """A log of four sealed segments, one of them ingested, and return its records."""
    client = cluster.new_client()
    async with await client.open(batch_records=7, **options) as log:
        for start in range(0, 90, 30):
            await append_all(log, numbered(start, 30))
            await log.append(
                b"stamped", producer_sequence=ProducerSequence("p\u00e9", start), txid=start
            )
            await log.roll()
    await ingest(client.logs.ingest(NAME))
    return await client.read()


async def ingest(ingest: Ingest) -> None:
    """Have the log ingest a ledger that was written outside it."""
    part = await ingest.create_part("job", LogOptions())
    for first in (0, 10):
        records = numbered(90 + first, 10)
        entry = encode_batch(records, first_offset=first, epoch=UNPLACED.epoch, timestamp_ms=0)
        await part.append(entry)
    await part.close()
    await ingest.ingest([part.ledger], Job("job", 0), remember=True)


async def offload(client: Client, target: Path, *, keep: bool = False) -> LogManifest:
    work: Offload = client.logs.offload(NAME)
    tier, segments = await work.begin(str(target))
    manifest = await client.manifest()
    for segment in segments:
        manifest = await work.commit({segment.number: await work.write(segment, tier)})
    if not keep:
        manifest = await work.release()
    await work.gc()
    return manifest


def files(target: Path) -> list[Path]:
    return sorted(each for each in target.rglob("*") if each.is_file())


async def spanned(client: Client, bounds: Bounds) -> list[bytes]:
    payloads: list[bytes] = []
    for span in await client.logs.snapshot(NAME, bounds=bounds):
        for piece in span.split(100):
            async for found in client.logs.read_span(piece):
                payloads += found.payloads()
    return payloads

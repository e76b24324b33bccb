"""Parts of a job: written and ingested, as a job does it."""

from __future__ import annotations

from quire.log.maintenance.ingest import Ingest
from quire.log.manifest.manifest import Job, LogManifest
from quire.log.manifest.options import LogOptions
from quire.log.records.batch import UNPLACED, encode_batch
from tests.support.log_cluster import (
    NAME,
    Client,
    numbered,
)


async def write_part(
    client: Client, job: str, first: int, count: int, *, close: bool = True
) -> int:
    """Write records of a job into a part, three to an entry."""
    writer = await client.logs.ingest(NAME).create_part(job, LogOptions())
    for at in range(0, count, 3):
        records = numbered(first + at, min(3, count - at))
        await writer.append(
            encode_batch(
                records,
                first_offset=UNPLACED.first_offset + at,
                epoch=UNPLACED.epoch,
                timestamp_ms=UNPLACED.timestamp_ms,
            )
        )
    if close:
        await writer.close()
    else:
        writer.abandon()
    return writer.ledger


async def ingest(
    client: Client, parts: list[int], name: str = "job", sequence: int = 0, *, remember: bool = True
) -> LogManifest:
    ingest: Ingest = client.logs.ingest(NAME)
    return await ingest.ingest(parts, Job(name, sequence), remember=remember)

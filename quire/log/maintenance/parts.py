"""Writing a part: a ledger whose records a log ingests later (ingest.py).

A part numbers its records from `UNPLACED`, because its place in the log is not known yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quire.entry import LedgerId
from quire.ledger.writer import LedgerWriter
from quire.log.maintenance.ingest import Ingest
from quire.log.manifest.options import LogOptions
from quire.log.records.batch import UNPLACED, encode_batch
from quire.log.records.encryption import Encryption
from quire.log.records.txids import NO_TXID
from quire.log.segment_store.ledgers import facts_of


async def write_part(
    ingest: Ingest, job: str, records: Iterable[bytes], options: LogOptions
) -> LedgerId:
    """Write records into a new ledger of a job, close it, and return its id."""
    writer = await ingest.create_part(job, options)
    try:
        encryption = Encryption.of(options.keyring, facts_of(writer._metadata))
        for batch in batches(records, options):
            await _append(writer, batch, encryption)
        await writer.close()
    except BaseException:
        writer.abandon()
        raise
    return writer.ledger


async def _append(writer: LedgerWriter, batch: bytes, encryption: Encryption | None) -> None:
    if encryption is not None:
        batch = encryption.seal(batch, writer.last_pushed + 1, NO_TXID)
    await writer.append(batch)


def batches(records: Iterable[bytes], options: LogOptions) -> Iterator[bytes]:
    """Yield the batches of a part, cut by `batch_bytes` and `batch_records`."""
    offset, size = UNPLACED.first_offset, 0
    waiting: list[bytes] = []
    for record in records:
        added = len(record)
        if waiting and (
            size + added > options.batch_bytes or len(waiting) == options.batch_records
        ):
            yield _encoded(waiting, offset, options)
            offset, size, waiting = offset + len(waiting), 0, []
        waiting.append(record)
        size += added
    if waiting:
        yield _encoded(waiting, offset, options)


def _encoded(records: list[bytes], offset: int, options: LogOptions) -> bytes:
    return encode_batch(
        records,
        first_offset=offset,
        epoch=UNPLACED.epoch,
        timestamp_ms=UNPLACED.timestamp_ms,
        compression=options.compression,
    )

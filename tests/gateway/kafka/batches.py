"""Records of a log, as a gateway reads them for a consumer."""

from __future__ import annotations

from quire.log.reading.segment_reader import RecordBatch
from quire.log.records.attributes import NewRecord, encode_attributes, taken
from quire.log.records.batch import decode_batch, encode_batch
from quire.log.records.producers import encode_columns


def batch_of(*records: NewRecord, slot: int = 0) -> RecordBatch:
    """Return records of a log at offset 7, time 1000, without the first `slot` of them."""
    payloads, attributes = taken(records)
    columns = encode_columns(encode_attributes(attributes)) if attributes else b""
    entry = encode_batch(payloads, first_offset=7, epoch=1, timestamp_ms=1000, columns=columns)
    return RecordBatch(1, 0, slot, decode_batch(entry, 5, 0))

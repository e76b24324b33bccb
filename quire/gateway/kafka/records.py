"""Batches of records as Kafka writes them, and records of a log. Pure.

Key, headers and time come from the log's record: the time is its event time, or the
log's own. A value may be null in Kafka, which a payload cannot be: such a record has an empty
payload and the header `NULL_VALUE`. Batches of any compression are read; answers to a fetch are not
compressed, because the records of a log lie unpacked in memory when they are fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from quire.errors import InvalidRequestError
from quire.gateway.kafka.unpacking import Allowance, check_size
from quire.log.records.attributes import EVENT_TIME_MS_MAX, HEADERS_MAX, NewRecord
from quire.log.records.position import Record

NULL_VALUE: Final = "quire-null"
"""Name of the header of a record with the value null."""

UNPACKED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of a batch when it is unpacked: more than any entry of a log."""

_LENGTH_AT: Final = 8
_PREFIX: Final = 12
"""Bytes of a batch that its length does not count."""

_MAGIC_AT: Final = 16
_COUNT_AT: Final = 57
_SMALLEST: Final = 61


class Produced(NamedTuple):
    """A batch that a producer sent."""

    records: tuple[NewRecord, ...]
    producer: int
    """−1: a producer without an id."""
    epoch: int
    sequence: int
    """The number of its first record."""


def decode_batches(data: bytes, allowance: Allowance) -> Iterator[Produced]:
    """Yield the batches of a partition; `allowance` is that of their request.

    Raises `InvalidRequestError` for bytes that are not batches of version 2, transactions, records
    that a log does not take, and more than the allowance has.
    """
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at + _LENGTH_AT : at + _PREFIX]) + _PREFIX
        if not _SMALLEST <= length <= len(data) - at:
            raise InvalidRequestError(f"a batch of {length} bytes in {len(data) - at}")
        if data[at + _MAGIC_AT] != 2:
            raise InvalidRequestError(f"batches of version {data[at + _MAGIC_AT]} are not read")
        yield _decode(data[at : at + length], allowance)
        at += length


def _decode(data: bytes, allowance: Allowance) -> Produced:
    try:
        batch = DefaultRecordBatch(data)
        if not batch.validate_crc():
            raise InvalidRequestError("the checksum of a batch does not fit")
        if batch.is_transactional or batch.is_control_batch:
            raise InvalidRequestError("a log has no transactions of Kafka")
        size = check_size(batch.compression_type, data[_SMALLEST:], UNPACKED_BYTES_MAX)
        allowance.take(size, int.from_bytes(data[_COUNT_AT:_SMALLEST]))
        ids = batch.producer_id, batch.producer_epoch, batch.base_sequence
        records = tuple(_new(each.key, each.value, each.headers, each.timestamp) for each in batch)
    except InvalidRequestError:
        raise
    except Exception as error:  # whatever aiokafka raises for bytes that do not add up
        raise InvalidRequestError(f"a batch does not add up: {error}") from error
    if not records:
        raise InvalidRequestError("a batch has no records")
    return Produced(records, *ids)


def _new(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    time_ms: int,
) -> NewRecord:
    if len(headers) > HEADERS_MAX:  # before each of them is looked at
        raise InvalidRequestError(f"{len(headers)} headers are too many: {HEADERS_MAX} are allowed")
    pairs = [(NULL_VALUE, None), *headers] if value is None else headers
    time = time_ms if 0 <= time_ms <= EVENT_TIME_MS_MAX else None
    return NewRecord(value or b"", key=key, headers=pairs, event_time=time)


def time_of(record: Record) -> int:
    """Return the time of a record as Kafka's clients see it, in Unix milliseconds."""
    return record.timestamp_ms if record.event_time_ms is None else record.event_time_ms


def encode_batch(records: Sequence[Record]) -> bytes:
    """Return consecutive records as one batch."""
    first = records[0].offset
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**31 - 1,
    )
    for record in records:
        is_null = record.headers[:1] == ((NULL_VALUE, None),)
        builder.append(
            record.offset - first,
            time_of(record),
            record.key,
            None if is_null else record.payload,
            list(record.headers[1:] if is_null else record.headers),
        )
    # The checksum does not cover the first offset, which a producer does not know.
    return first.to_bytes(8) + bytes(builder.build()[8:])

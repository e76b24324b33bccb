"""Batches of records as Kafka writes them, and records of a log. Pure.

Key, headers and time come from the log's record: the time is its event time, or the
log's own. A value may be null in Kafka, which a payload cannot be: such a record has an empty
payload and the header `NULL_VALUE`. Batches of any compression are read; answers to a fetch are not
compressed, because the records of a log lie unpacked in memory when they are fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from quire.errors import InvalidRequestError
from quire.gateway.kafka.unpacking import Allowance, check_size
from quire.log.reading.segment_reader import RecordBatch
from quire.log.records.attributes import EVENT_TIME_MS_MAX, HEADERS_MAX, NewRecord
from quire.log.records.position import Record

NULL_VALUE: Final = "quire-null"
"""Name of the header of a record with the value null."""

RECORD_BYTES: Final = 64
"""A record takes about so much in an answer, beside what it holds."""

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


class FetchedRecord(NamedTuple):
    """A record as Kafka's clients get it."""

    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]

    @property
    def size(self) -> int:
        """About so many bytes it takes in an answer."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return RECORD_BYTES + len(self.key or b"") + len(self.value or b"") + headers


def fetched(batch: RecordBatch) -> tuple[list[FetchedRecord], list[int]]:
    """Return records of a log as Kafka's clients get them, and the size of each in an answer.

    Column by column: records of a log are not made, which would take as long as all the rest.
    """
    offsets, payloads = range(batch.first_offset, batch.next_offset), batch.payloads()
    count, columns = len(offsets), batch.batch.attributes
    own_ms = batch.batch.header.timestamp_ms
    given = columns.event_times_ms[batch.slot :]
    times = [own_ms if each is None else each for each in given] or [own_ms] * count
    if not columns.keys and not columns.headers:
        make = partial(tuple.__new__, FetchedRecord)  # its constructor, inlined
        rows: Iterable[tuple[object, ...]]
        rows = zip(offsets, times, [None] * count, payloads, [[]] * count, strict=True)
        return list(map(make, rows)), [RECORD_BYTES + len(each) for each in payloads]
    keys = columns.keys[batch.slot :] or [None] * count
    headers = columns.headers[batch.slot :] or [()] * count
    found = list(map(_fetched, offsets, times, keys, payloads, headers))
    return found, [each.size for each in found]


def _fetched(
    offset: int,
    time_ms: int,
    key: bytes | None,
    payload: bytes,
    headers: tuple[tuple[str, bytes | None], ...],
) -> FetchedRecord:
    if headers[:1] == ((NULL_VALUE, None),):
        return FetchedRecord(offset, time_ms, key, None, list(headers[1:]))
    return FetchedRecord(offset, time_ms, key, payload, list(headers))


def encode_batch(records: Sequence[FetchedRecord]) -> bytes:
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
    append = builder.append
    for offset, time_ms, key, value, headers in records:
        append(offset - first, time_ms, key, value, headers)
    # The checksum does not cover the first offset, which a producer does not know.
    return first.to_bytes(8) + bytes(memoryview(builder.build())[8:])

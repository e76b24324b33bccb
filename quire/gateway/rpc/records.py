"""Records and requests as messages. Pure: no clock and no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from quire.errors import InvalidRequestError
from quire.gateway.bodies import RECORDS_MAX, Submission
from quire.gateway.rpc import logs_pb2 as pb
from quire.log.records.attributes import Appendable, NewRecord
from quire.log.records.position import Appended, Record
from quire.log.records.producers import ProducerSequence

REPLY_BYTES_MAX: Final = 1024 * 1024
"""Payloads of a message with records, beyond its first one: clients take 4 MiB by default."""

REPLY_RECORDS_MAX: Final = 10_000


def submission_of(message: pb.AppendRequest) -> Submission:
    """Return the records of a message, which are one batch. Raises `InvalidRequestError`."""
    if not message.records:
        raise InvalidRequestError("the request has no record")
    if len(message.records) > RECORDS_MAX:
        raise InvalidRequestError(
            f"{len(message.records)} records are too many for one message: send {RECORDS_MAX} at "
            "most"
        )
    producer = message.producer
    return Submission(
        tuple(map(_appendable, message.records)),
        message.expected_offset if message.HasField("expected_offset") else None,
        ProducerSequence(producer.id, producer.sequence) if message.HasField("producer") else None,
        message.txid if message.HasField("txid") else None,
        is_atomic=True,
    )


def _appendable(record: pb.NewRecord) -> Appendable:
    key = record.key if record.HasField("key") else None
    time = record.event_time_ms if record.HasField("event_time_ms") else None
    if key is None and time is None and not record.headers:
        return record.payload
    headers = [
        (each.name, each.value if each.HasField("value") else None) for each in record.headers
    ]
    return NewRecord(record.payload, key=key, headers=headers, event_time=time)


def reply_of(places: Sequence[Appended]) -> pb.AppendReply:
    """Return the answer to an append."""
    return pb.AppendReply(
        first_offset=places[0].offset, records=len(places), next=str(places[-1].position.after)
    )


def record_of(record: Record) -> pb.Record:
    """Return a record as a message."""
    return pb.Record(
        offset=record.offset,
        position=str(record.position),
        time_ms=record.timestamp_ms,
        epoch=record.epoch,
        payload=record.payload,
        txid=record.txid,
        key=record.key,
        headers=[pb.Header(name=name, value=value) for name, value in record.headers],
        event_time_ms=record.event_time_ms,
    )


def replies_of(records: Sequence[Record]) -> Iterator[pb.ReadReply]:
    """Yield messages with records, each small enough for a client."""
    part: list[Record] = []
    size = 0
    for record in records:
        if part and (size >= REPLY_BYTES_MAX or len(part) >= REPLY_RECORDS_MAX):
            yield _reply(part)
            part, size = [], 0
        part.append(record)
        size += len(record.payload) + len(record.key or b"")
    if part:
        yield _reply(part)


def _reply(part: Sequence[Record]) -> pb.ReadReply:
    return pb.ReadReply(records=map(record_of, part), next=str(part[-1].position.after))

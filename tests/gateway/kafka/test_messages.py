"""Bytes of Kafka's protocol: requests that add up or are refused, answers, batches of records."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from quire.errors import InvalidRequestError
from quire.gateway.kafka.messages import (
    VERSIONS,
    Header,
    decode_request,
    encode_answer,
)
from quire.gateway.kafka.records import (
    NULL_VALUE,
    FetchedRecord,
    decode_batches,
    encode_batch,
    fetched,
    time_of,
)
from quire.gateway.kafka.unpacking import Allowance
from quire.log.records.attributes import NewRecord
from tests.gateway.kafka.batches import batch_of

PLAIN = NewRecord(b"plain")
KEYED = NewRecord(b"x", key=b"k", headers=(("h", b"v"), ("h", None)), event_time=5)


def kafka_batch_of(*records: NewRecord) -> bytes:
    """Return the batch that a consumer gets."""
    return encode_batch(fetched(batch_of(*records))[0])


NEW = st.builds(
    NewRecord,
    st.binary(max_size=3),
    key=st.none() | st.binary(max_size=2),
    headers=st.lists(
        st.tuples(st.sampled_from(["a", NULL_VALUE]), st.none() | st.binary()), max_size=2
    ),
    event_time=st.none() | st.integers(0, 9),
)


@given(
    st.lists(NEW | st.builds(NewRecord, st.binary(max_size=3)), min_size=1, max_size=4), st.data()
)
def test_a_consumer_gets_the_records_of_the_log(
    records: list[NewRecord], data: st.DataObject
) -> None:
    batch = batch_of(*records, slot=data.draw(st.integers(0, len(records) - 1)))
    found, sizes = fetched(batch)
    assert sizes == [each.size for each in found]
    for got, record in zip(found, batch.records(), strict=True):
        is_null = record.headers[:1] == ((NULL_VALUE, None),)
        value, headers = None if is_null else record.payload, record.headers[is_null:]
        assert got._replace(headers=tuple(got.headers)) == FetchedRecord(
            record.offset, time_of(record), record.key, value, headers
        )


@given(st.binary(max_size=80))
def test_any_bytes_are_a_request_or_refused(message: bytes) -> None:
    try:
        decode_request(message)
    except InvalidRequestError:
        return


@pytest.mark.parametrize("key", VERSIONS)
def test_a_version_that_is_not_known_has_no_body(key: int) -> None:
    for version in (VERSIONS[key].highest + 1, VERSIONS[key].lowest - 1):
        if version >= 0:
            message = key.to_bytes(2) + version.to_bytes(2) + (5).to_bytes(4)
            header, body = decode_request(message + bytes(50))
            assert (header.api_key, header.correlation, body) == (key, 5, None)


@pytest.mark.parametrize("version", range(VERSIONS[3].lowest, VERSIONS[3].highest + 1))
def test_an_answer_has_the_fields_of_its_version(version: int) -> None:
    partition = {
        "error_code": ErrorCode.none,
        "partition_index": 0,
        "leader_id": 3,
        "replica_nodes": [3],
        "isr_nodes": [3],
    }
    topic = {
        "error_code": ErrorCode.none,
        "name": "orders",
        "topic_id": None,
        "partitions": [partition],
    }
    fields = {
        "brokers": [{"node_id": 3, "host": "h", "port": 9}],
        "controller_id": 3,
        "topics": [topic],
    }
    frame = encode_answer(Header(3, version, 77, ""), fields)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert int.from_bytes(frame[4:8]) == 77
    start = 9 if version >= 9 else 8
    schema: Any = load_response_schema(3, version)
    found: Any
    found, size = entity_reader(schema)(frame, start)
    assert start + size == len(frame)
    assert found.topics[0].name == "orders"
    assert found.topics[0].partitions[0].leader_id == 3


def test_records_come_back_from_a_batch() -> None:
    data = kafka_batch_of(PLAIN, KEYED)
    assert int.from_bytes(data[:8]) == 7
    (batch,) = decode_batches(data, Allowance())
    assert batch.records == (NewRecord(b"plain", event_time=1000), KEYED)
    assert (batch.producer, batch.epoch, batch.sequence) == (-1, -1, -1)
    assert [len(each.records) for each in decode_batches(data + data, Allowance())] == [2, 2]


def test_a_value_of_null_is_kept() -> None:
    null = NewRecord(b"", headers=(("quire-null", None), ("h", b"v")))
    (batch,) = decode_batches(kafka_batch_of(null, NewRecord(b"")), Allowance())
    assert batch.records[0].attributes.headers == null.attributes.headers
    assert batch.records[1].attributes.headers == ()


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_damaged_batch_is_refused_or_is_the_same(at: int, value: int) -> None:
    data = bytearray(kafka_batch_of(PLAIN, KEYED))
    good = list(decode_batches(bytes(data), Allowance()))
    at %= len(data)
    data[at] = value
    try:
        found = list(decode_batches(bytes(data), Allowance()))
    except InvalidRequestError:
        return
    assert found == good, f"byte {at}"


@given(st.binary(max_size=100))
def test_any_bytes_are_batches_or_refused(data: bytes) -> None:
    try:
        list(decode_batches(data, Allowance()))
    except InvalidRequestError:
        return


def test_an_empty_stream_of_batches_has_none() -> None:
    assert list(decode_batches(b"", Allowance())) == []
    assert io.BytesIO(kafka_batch_of(PLAIN)).read(8) == (7).to_bytes(8)

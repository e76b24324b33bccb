"""Chunks: the same rows give the same chunks, however they come, and come back as they were."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import InvalidRequestError
from quire.gateway.bodies import parse_submission, record_fields
from quire.log.records.arrow_rows import RecordRows
from quire.log.records.attributes import NO_ATTRIBUTES, Attributes, NewRecord
from quire.log.records.position import Position, Record
from quire.log.records.producers import NAME_BYTES_MAX, ProducerSequence
from quire.spark.chunks import (
    BATCH_MAX,
    CHUNK_BITS,
    CHUNK_BYTES,
    CHUNK_RECORDS,
    ChunkNumber,
    Row,
    body_of,
    cut,
    difference,
    fields_of,
    producer_of,
    rows_in,
)

PAYLOADS = [bytes([n % 251]) * (n * 37 % 4_000) for n in range(3_000)]


def in_batches(seed: int) -> Iterator[RecordRows]:
    """Yield the payloads in batches of random sizes."""
    rng, at = random.Random(seed), 0
    while at < len(PAYLOADS):
        size = rng.randrange(700)
        yield RecordRows(PAYLOADS[at : at + size])
        at += size


@pytest.mark.parametrize("seed", range(5))
def test_batches_of_arrow_do_not_change_the_chunks(seed: int) -> None:
    whole = list(cut(rows_in([RecordRows(PAYLOADS)])))
    assert list(cut(rows_in(in_batches(seed)))) == whole
    assert [payload for chunk in whole for payload, _ in chunk] == PAYLOADS
    for chunk, following in pairwise(whole):
        size = sum(len(payload) for payload, _ in chunk)
        assert size <= CHUNK_BYTES
        is_full = len(chunk) == CHUNK_RECORDS or size + len(following[0][0]) > CHUNK_BYTES
        assert is_full, "a chunk ends only when the next row does not fit"


def test_a_chunk_has_no_more_rows_than_it_may() -> None:
    rows = [(b"", NO_ATTRIBUTES)] * (2 * CHUNK_RECORDS + 1)
    assert [len(chunk) for chunk in cut(rows)] == [CHUNK_RECORDS, CHUNK_RECORDS, 1]
    assert list(cut([])) == []


def test_a_row_that_is_too_large_is_alone() -> None:
    rows: list[Row] = [(b"a", NO_ATTRIBUTES), (bytes(CHUNK_BYTES + 1), NO_ATTRIBUTES)]
    assert [len(chunk) for chunk in cut([*rows, rows[0]])] == [1, 1, 1]


def test_keys_and_headers_count() -> None:
    row = (b"", Attributes(key=bytes(CHUNK_BYTES // 2)))
    assert [len(chunk) for chunk in cut([row, row])] == [1, 1]


def test_a_null_payload_is_an_error() -> None:
    with pytest.raises(InvalidRequestError, match="payload null"):
        list(rows_in([RecordRows([b"a", None])]))


def test_numbers_grow_with_the_chunk_and_the_batch() -> None:
    places = [
        ChunkNumber(0, 0),
        ChunkNumber(0, 1),
        ChunkNumber(0, 2**CHUNK_BITS - 1),
        ChunkNumber(1, 0),
        ChunkNumber(7, 3),
    ]
    numbers = [place.sequence for place in places]
    assert numbers == sorted(set(numbers))
    assert [ChunkNumber.of(number) for number in numbers] == places
    last = ChunkNumber(BATCH_MAX, 2**CHUNK_BITS - 1).sequence
    ProducerSequence("spark", last).check()
    with pytest.raises(InvalidRequestError):
        ProducerSequence("spark", last + 1).check()


def test_producers_differ_by_job_query_and_partition() -> None:
    names = {
        producer_of(job, query, partition)
        for job in ("a", "ab", "x" * 5_000)
        for query in ("", "b", "q1")
        for partition in (0, 1, 11)
    }
    assert len(names) == 27
    assert all(len(name.encode()) <= NAME_BYTES_MAX for name in names)
    assert producer_of("a", "", 1) == producer_of("a", "", 1)


ATTRIBUTES = st.builds(
    Attributes,
    key=st.none() | st.binary(max_size=4),
    headers=st.lists(
        st.tuples(st.text("ab\N{SNOWMAN}", min_size=1, max_size=3), st.none() | st.binary()),
        max_size=3,
    ).map(tuple),
    event_time_ms=st.none() | st.integers(0, 2**40),
)


@given(st.lists(st.tuples(st.binary(max_size=9), ATTRIBUTES), min_size=1, max_size=5))
def test_a_gateway_gives_a_chunk_back_as_it_took_it(rows: list[Row]) -> None:
    fields = [fields_of(row) for row in rows]
    body = body_of(fields, "spark-1", ChunkNumber(3, 4))
    taken = parse_submission("application/json", body)
    assert taken.producer_sequence == ProducerSequence("spark-1", ChunkNumber(3, 4).sequence)
    given_back = []
    for at, appendable in enumerate(taken.records):
        new = appendable if isinstance(appendable, NewRecord) else NewRecord(appendable)
        key, headers, time = new.attributes
        record = Record(
            *(Position(1, at, 0), at, 1, 1_000, bytes(new.payload)),
            key=key,
            headers=headers,
            event_time_ms=time,
        )
        given_back.append(json.loads(json.dumps(record_fields(record))))
    assert difference(fields, given_back) is None


@pytest.mark.parametrize(
    "other",
    [
        {"value": "b"},
        {"base64": "YQ=="},
        {"value": "a", "key": "k"},
        {"value": "a", "headers": []},
        {"value": "a", "event_time_ms": 1},
    ],
)
def test_a_difference_is_found(other: dict[str, object]) -> None:
    same = {"value": "a", "offset": 7, "time": "2026-01-01T00:00:00Z"}
    assert difference([{"value": "a"}] * 2, [same, other]) == 1
    assert difference([{"value": "a"}] * 2, [same, same]) is None

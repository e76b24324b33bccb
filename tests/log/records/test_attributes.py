"""Keys, headers and event times: kept with their records, through every way that a record goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import quire.sync
from quire.errors import (
    CorruptEntryError,
    EntryTooLargeError,
    InvalidRequestError,
    LevelNeededError,
)
from quire.log.records.attributes import (
    ATTRIBUTES_BYTES,
    EVENT_TIME_MS_MAX,
    EVENT_TIMES,
    HEADERS,
    HEADERS_MAX,
    KEYS,
    NO_ATTRIBUTES,
    Attributes,
    NewRecord,
    decode_attributes,
    encode_attributes,
    taken,
)
from quire.log.records.batch import BATCH_BYTES_MAX, Compression, decode_batch, encode_batch
from quire.log.records.keyring import Keyring
from quire.log.records.position import Record
from quire.log.records.producers import COLUMNS_RESERVE, ProducerSequence, encode_columns
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER
from quire.metastore.levels import ATTRIBUTES_LEVEL, FIRST_LEVEL
from quire.testing import MemoryCluster
from tests.support.log_cluster import Client, LogCluster, run

# What `str.isprintable` accepts: a filter over all texts gives up at some seeds.
printable = st.characters(exclude_categories=["C", "Z"], include_characters=" ")
names = st.text(printable, min_size=1, max_size=8)
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=9)), max_size=4).map(tuple)
times = st.none() | st.integers(-EVENT_TIME_MS_MAX, EVENT_TIME_MS_MAX)
attributes = st.builds(Attributes, st.none() | st.binary(max_size=9), headers, times)


@given(st.lists(attributes, min_size=1, max_size=20))
def test_the_attributes_of_a_batch_come_back(given_: list[Attributes]) -> None:
    columns = encode_attributes(given_)
    found = decode_attributes(columns, len(given_))
    assert found.of_slots(range(len(given_))) == given_
    assert found.of_slots(range(1, len(given_))) == given_[1:]
    assert bool(found) == bool(columns) == any(each != NO_ATTRIBUTES for each in given_)


@given(st.lists(attributes, min_size=1, max_size=20))
def test_attributes_cost_no_more_than_is_said(given_: list[Attributes]) -> None:
    said = sum(ATTRIBUTES_BYTES + each.cost() for each in given_) + COLUMNS_RESERVE
    assert len(encode_columns(encode_attributes(given_))) <= said


def test_a_batch_without_attributes_is_as_it_was() -> None:
    assert encode_attributes([NO_ATTRIBUTES] * 3) == {}
    assert taken([b"a", NewRecord(b"b")]) == ([b"a", b"b"], ())


@given(st.sampled_from([KEYS, HEADERS, EVENT_TIMES]), st.binary(max_size=60), st.integers(1, 5))
def test_columns_of_any_bytes_are_read_or_refused(kind: int, data: bytes, count: int) -> None:
    try:
        found = decode_attributes({kind: data}, count)
    except ValueError:
        return
    assert len(found.of_slots(range(count))) == count


@pytest.mark.parametrize("kind", [KEYS, HEADERS, EVENT_TIMES])
@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x"])
def test_a_column_that_is_cut_or_too_long_is_refused(kind: int, change: Any) -> None:
    columns = encode_attributes([Attributes(b"key", (("h", b"value"),), 7)])
    columns[kind] = change(columns[kind])
    fields: dict[str, Any] = {"first_offset": 0, "epoch": 1, "timestamp_ms": 0}
    batch = encode_batch([b"a"], columns=encode_columns(columns), **fields)
    with pytest.raises(CorruptEntryError, match="of"):
        decode_batch(batch, 1, 0)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"key": "text"}, TypeError),
        ({"headers": {"h": "text"}}, TypeError),
        ({"headers": {"": b""}}, InvalidRequestError),
        ({"headers": {"\ud800": b""}}, InvalidRequestError),
        ({"headers": {"h" * 1025: b""}}, InvalidRequestError),
        ({"headers": [("h",)]}, InvalidRequestError),
        ({"headers": [(7, b"")]}, InvalidRequestError),
        ({"headers": [("h", b"")] * (HEADERS_MAX + 1)}, InvalidRequestError),
        ({"event_time": -EVENT_TIME_MS_MAX - 1}, InvalidRequestError),
        ({"event_time": EVENT_TIME_MS_MAX + 1}, InvalidRequestError),
        ({"event_time": 1.5}, InvalidRequestError),
        ({"event_time": True}, InvalidRequestError),
        ({"event_time": datetime(2026, 1, 1)}, InvalidRequestError),
    ],
)
def test_what_cannot_be_stored_is_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        NewRecord(b"payload", **fields)


def test_a_new_record_says_what_it_has() -> None:
    record = NewRecord(
        b"p", key=b"k", headers={"h": b"v"}, event_time=datetime(1970, 1, 1, tzinfo=UTC)
    )
    assert repr(record) == "NewRecord(b'p', key=b'k', headers=(('h', b'v'),), event_time=0)"
    assert record == NewRecord(b"p", key=b"k", headers=[("h", b"v")], event_time=0)
    assert record != NewRecord(b"p", key=b"k")
    assert len({record, record}) == 1


KEYED = NewRecord(b"buy", key=b"ACME", headers=[("trace", b"1"), ("trace", None)], event_time=-5)


@asynccontextmanager
async def a_client(level: int = ATTRIBUTES_LEVEL) -> AsyncIterator[Client]:
    async with LogCluster() as cluster:
        await cluster.store.create(CLUSTER, Cluster("c", level=level).encode())
        yield cluster.new_client()


def given_to(records: list[Record]) -> list[tuple[bytes, Attributes]]:
    return [
        (each.payload, Attributes(each.key, each.headers, each.event_time_ms)) for each in records
    ]


@pytest.mark.parametrize("keyring", [None, Keyring({"k1": bytes(32)}, current="k1")])
@pytest.mark.parametrize("compression", Compression)
def test_a_log_keeps_what_its_records_were_given(
    keyring: Keyring | None, compression: Compression
) -> None:
    async def scenario() -> None:
        async with a_client() as client:
            log = await client.open(keyring=keyring, compression=compression)
            await log.append(b"plain")
            await log.append(KEYED)
            several: list[bytes | NewRecord] = [b"none", NewRecord(b"", key=b""), KEYED]
            number = ProducerSequence("p", 1)
            await log.append_many(several, txid=7, producer_sequence=number)
            again = await log.append_many(several, txid=7, producer_sequence=number)
            assert [each.offset for each in again] == [2, 3, 4]
            await log.roll()
            await log.append(NewRecord(b"late", event_time=5))
            await log.close()
            found = await client.read(keyring=keyring)
            keyed = (KEYED.payload, KEYED.attributes)
            assert given_to(found) == [
                (b"plain", NO_ATTRIBUTES),
                keyed,
                (b"none", NO_ATTRIBUTES),
                (b"", Attributes(b"")),
                keyed,
                (b"late", Attributes(event_time_ms=5)),
            ]
            assert [each.txid for each in found] == [None, None, 7, 7, 7, 7]
            middle = await client.read(found[3].position, keyring=keyring)
            assert given_to(middle) == given_to(found[3:])

    run(scenario)


def test_records_in_one_batch_keep_their_own() -> None:
    """Records that are submitted at once share entries, with and without attributes."""

    async def scenario() -> None:
        async with a_client() as client:
            log = await client.open()
            records = [
                NewRecord(b"%d" % number, key=b"%d" % number) if number % 3 else b"%d" % number
                for number in range(300)
            ]
            futures = [await log.submit(each) for each in records]
            await asyncio.gather(*futures)
            await log.close()
            found = await client.read()
            assert [(each.payload, each.key) for each in found] == [
                (b"%d" % number, b"%d" % number if number % 3 else None) for number in range(300)
            ]
            assert found[-1].position.entry < 100, "many records share an entry"

    run(scenario)


def test_keys_count_as_payloads_do() -> None:
    """Neither an entry nor the room of appends gets larger by keys than it may be."""

    async def scenario() -> None:
        async with a_client() as client:
            log = await client.open()
            room = BATCH_BYTES_MAX - COLUMNS_RESERVE - ATTRIBUTES_BYTES - 4
            with pytest.raises(EntryTooLargeError):
                await log.append(NewRecord(b"p", key=bytes(room)))
            await log.append(NewRecord(b"p", key=bytes(room - 1)))
            large = [NewRecord(b"p", key=bytes(BATCH_BYTES_MAX // 3)) for _ in range(4)]
            futures = [await log.submit(each) for each in large]
            await asyncio.gather(*futures)
            await log.close()
            assert [len(each.key or b"") for each in await client.read()][1:] == [
                BATCH_BYTES_MAX // 3
            ] * 4

    run(scenario)


def test_a_cluster_with_older_programs_takes_no_attributes() -> None:
    """A program of level 1 would pass keys over in silence. Plain records go on."""

    async def scenario() -> None:
        async with a_client(level=FIRST_LEVEL) as client:
            log = await client.open()
            for refused in (log.append(KEYED), log.append_many([b"plain", KEYED])):
                with pytest.raises(LevelNeededError, match="upgrade --finish"):
                    await refused
            await log.append(NewRecord(b"nothing besides"))
            await log.close()
            assert await client.payloads() == [b"nothing besides"]

    run(scenario)


def test_a_scan_has_keys_headers_and_event_times() -> None:
    with MemoryCluster() as cluster, quire.sync.connect(cluster.store_uri) as client:
        with client.open_log("orders") as log:
            log.append_many([b"plain", KEYED, NewRecord(b"timed", event_time=1000)])
            log.append(b"last")
        names = ["key", "headers", "event_time"]
        table = client.scan_log("orders", columns=names).read_all()
        pairs = [{"name": "trace", "value": b"1"}, {"name": "trace", "value": None}]
        assert table.column("key").to_pylist() == [None, b"ACME", None, None]
        assert table.column("headers").to_pylist() == [None, pairs, None, None]
        assert table.column("event_time").cast("int64").to_pylist() == [
            None,
            -5_000,
            1_000_000,
            None,
        ]

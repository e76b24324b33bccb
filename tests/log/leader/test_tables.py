"""Arrow tables become records, in order, or say why not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import polars
import pyarrow as pa
import pytest

import quire
from quire.errors import InvalidRequestError
from quire.ledgers import Replication
from quire.log.leader import tables
from quire.testing import MemoryCluster

OPTIONS = quire.LogOptions(replication=Replication(1, 1, 1))
HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))


def append(table: Any) -> tuple[tables.AppendedTable, list[quire.Record]]:
    async def main() -> tuple[tables.AppendedTable, list[quire.Record]]:
        async with MemoryCluster(1) as cluster, quire.connect(cluster.store_uri) as client:
            async with await client.open_log("orders", OPTIONS) as log:
                await log.append(b"before")
                done = await log.append_table(table)
            return done, [each async for each in client.read_log("orders")][1:]

    return asyncio.run(main())


def test_rows_become_records_with_keys_headers_and_times() -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
    table = pa.table(
        {
            "key": pa.array(["k", None]),
            "payload": pa.array([b"one", b"two"]),
            "headers": pa.array([[{"name": "h", "value": b"v"}], None], HEADERS),
            "event_time": pa.array([when, None], pa.timestamp("ns", "UTC")),
        }
    )
    done, records = append(table)
    assert (done.records, done.first, done.last) == (
        2,
        (records[0].position, 1),
        (records[1].position, 2),
    )
    assert [each.payload for each in records] == [b"one", b"two"]
    assert (records[0].key, records[1].key) == (b"k", None)
    assert records[0].headers == (("h", b"v"),)
    assert records[0].event_time_ms == int(when.timestamp() * 1000)


@pytest.mark.parametrize(
    "made",
    [
        lambda values: pa.table({"payload": values}),
        lambda values: pa.record_batch({"payload": values}),
        lambda values: pa.table({"payload": pa.array(values, pa.large_string())}),
        lambda values: pa.table({"payload": values}).to_reader(max_chunksize=7),
        lambda values: polars.DataFrame({"payload": values}),
    ],
    ids=["table", "batch", "large strings", "reader", "polars"],
)
def test_each_kind_of_table_is_taken_in_pieces(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PIECE_ROWS", 10)
    values = [f"{each}" for each in range(95)]
    done, records = append(made(values))
    assert done.records == 95
    assert [each.payload.decode() for each in records] == values
    assert done.last is not None
    assert done.last.offset == 95


def test_a_table_without_rows_appends_nothing() -> None:
    done, records = append(pa.table({"payload": pa.array([], pa.binary())}))
    assert (done, records) == ((0, None, None), [])


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pa.table({"text": ["a"]}), "not \\(text string\\): select"),
        (pa.table({"payload": [1]}), "payload int64"),
        (pa.table({"payload": ["a"], "offset": [1]}), "offset int64"),
        (pa.table({"payload": ["a", None]}), "row 1 has no payload"),
        ([b"a"], "list is not an Arrow table"),
    ],
    ids=["no payload", "numbers", "unknown column", "null", "no table"],
)
def test_what_is_no_record_is_refused(table: Any, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        append(table)


def test_a_reader_that_fails_leaves_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PIECE_ROWS", 2)
    schema = pa.schema([("payload", pa.string())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"payload": ["a", "b", "c"]}, schema=schema)
        raise OSError("the disk is gone")

    async def main() -> None:
        async with MemoryCluster(1) as cluster, quire.connect(cluster.store_uri) as client:
            async with await client.open_log("orders", OPTIONS) as log:
                with pytest.raises(OSError, match="the disk is gone"):
                    await log.append_table(pa.RecordBatchReader.from_batches(schema, batches()))
                assert (await log.append(b"d")).offset == 3
            found = [each.payload async for each in client.read_log("orders")]
        assert found == [b"a", b"b", b"c", b"d"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("records", "sizes"),
    [
        ([b"x" * 10] * 10, [4, 4, 2]),
        ([b"x" * 60, b"x" * 60, b"x"], [1, 2]),
        ([b"x" * 500, b"", b"x" * 500], [1, 1, 1]),
        ([quire.NewRecord(b"x" * 30, key=b"k" * 20, headers={"n": b"v" * 40})] * 2, [1, 1]),
        ([], []),
    ],
    ids=["by records", "by bytes", "larger than a group", "with attributes", "none"],
)
def test_groups_are_small_beside_a_batch(records: list[Any], sizes: list[int]) -> None:
    options = quire.LogOptions(batch_records=64, batch_bytes=1600)
    groups = list(tables.groups_of(records, options))
    assert [len(group) for group in groups] == sizes
    assert [each for group in groups for each in group] == records


def test_batches_are_not_larger_than_the_log_wants() -> None:
    async def main() -> list[int]:
        options = quire.LogOptions(replication=Replication(1, 1, 1), batch_records=7)
        async with MemoryCluster(1) as cluster, quire.connect(cluster.store_uri) as client:
            async with await client.open_log("orders", options) as log:
                await log.append_table(pa.table({"payload": ["x"] * 50}))
            async with client.read_log("orders") as reader:
                return [len(batch) async for batch in reader.read_batches()]

    sizes = asyncio.run(main())
    assert sum(sizes) == 50
    assert max(sizes) <= 7

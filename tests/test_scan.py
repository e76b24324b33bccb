"""A scan is a bounded Arrow reader of what a plain reader sees; it skips and hides nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

import quire
import quire.sync
from quire import columns
from quire.errors import (
    HandleClosedError,
    InvalidRequestError,
    MissingExtraError,
    NoSuchLogError,
    PositionTrimmedError,
)
from quire.scan import COLUMNS, make_bounds
from quire.testing import MemoryCluster

LOG = "orders"


@contextmanager
def connected() -> Iterator[quire.sync.SyncClient]:
    with MemoryCluster() as cluster, quire.sync.connect(cluster.store_uri) as client:
        yield client


def fill(client: quire.sync.SyncClient, records: int = 30) -> None:
    """Append numbered records in three segments, with ids that grow by ten."""
    for first in range(0, records, 10):
        with client.open_log(LOG) as log:
            for number in range(first, first + 10, 2):
                log.append_many([b"%d" % number, b"%d" % (number + 1)], txid=number)


def test_a_scan_has_the_records_and_columns_that_a_reader_sees() -> None:
    with connected() as client:
        fill(client)
        table = client.scan_log(LOG).read_all()
        assert table.column_names == list(COLUMNS)
        seen = [
            {
                "offset": each.offset,
                "segment": each.position.segment,
                "entry": each.position.entry,
                "slot": each.position.slot,
                "epoch": each.epoch,
                "timestamp": datetime.fromtimestamp(0, UTC)
                + timedelta(milliseconds=each.timestamp_ms),
                "txid": each.txid,
                "payload": each.payload,
            }
            for each in client.read_log(LOG)
        ]
        assert table.to_pylist() == seen
        assert len(seen) == 30


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (quire.BEGINNING, quire.LATEST, range(30)),
        (7, 23, range(7, 23)),
        (0, 0, range(0)),
        (29, 1000, range(29, 30)),
        (30, quire.LATEST, range(0)),
        (quire.Position(1, 4, 1), quire.Position(2, 0, 1), range(9, 11)),
        (quire.Position(2, 0, 0), 12, range(10, 12)),
        (datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC), range(0)),
        (datetime(2020, 1, 1, tzinfo=UTC), 5, range(5)),
    ],
    ids=str,
)
def test_the_end_is_left_out_and_the_start_is_not(start: Any, end: Any, expected: range) -> None:
    with connected() as client:
        fill(client)
        table = client.scan_log(LOG, start, end, columns=["payload", "offset"]).read_all()
        assert table.column("offset").to_pylist() == list(expected)
        assert table.column("payload").to_pylist() == [b"%d" % each for each in expected]


def test_a_batch_is_bounded_and_the_next_is_read_when_it_is_pulled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns, "ROWS_MAX", 4)
    with connected() as client:
        fill(client)
        reader = client.scan_log(LOG, columns=["offset"])
        assert reader.read_next_batch().to_pydict() == {"offset": [0, 1, 2, 3]}
        sizes = [len(batch) for batch in reader]
        assert sum(sizes) == 26
        assert max(sizes) == 4


def test_other_engines_read_it_through_the_arrow_stream_interface() -> None:
    with connected() as client:
        fill(client)
        stream = client.scan_log(LOG, 5, 8, columns=["offset", "payload"]).__arrow_c_stream__()
        found = pa.RecordBatchReader._import_from_c_capsule(stream).read_all()
        assert found.to_pydict() == {"offset": [5, 6, 7], "payload": [b"5", b"6", b"7"]}


def by_duckdb(reader: Any) -> list[tuple[int, bytes]]:
    with duckdb.connect() as connection:
        rows: list[tuple[int, bytes]] = connection.execute(
            'SELECT "offset", payload FROM reader ORDER BY 1'
        ).fetchall()
        return rows


def by_polars(reader: Any) -> list[tuple[int, bytes]]:
    frame = polars.from_arrow(reader)
    assert isinstance(frame, polars.DataFrame)
    return frame.select("offset", "payload").rows()


ENGINES = pytest.mark.parametrize("rows_of", [by_duckdb, by_polars])


@ENGINES
def test_duckdb_and_polars_take_it_as_it_is(rows_of: Callable[[Any], Any], sizes: None) -> None:
    with connected() as client:
        fill(client)
        rows = rows_of(client.scan_log(LOG, 3, 25))
        assert rows == [(each, b"%d" % each) for each in range(3, 25)]


@ENGINES
def test_they_return_no_part_of_a_scan_that_failed(
    rows_of: Callable[[Any], Any], sizes: None
) -> None:
    with MemoryCluster() as cluster:
        with quire.sync.connect(cluster.store_uri) as client:
            fill(client)
            reader = client.scan_log(LOG)
            assert len(reader.read_next_batch()) == 4
        with pytest.raises(Exception, match="is closed"):
            rows_of(reader)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches: a scan has several."""
    monkeypatch.setattr(columns, "ROWS_MAX", 4)


def test_what_is_appended_later_is_not_part_of_it() -> None:
    with connected() as client:
        fill(client, 10)
        reader = client.scan_log(LOG)
        with client.open_log(LOG) as log:
            log.append(b"later")
        assert len(reader.read_all()) == 10


def test_a_start_that_was_trimmed_is_an_error_and_the_beginning_is_what_is_left() -> None:
    with connected() as client:
        fill(client)
        client.trim_log(LOG, quire.Position(1, 2, 0))
        for start in (1, 3):
            with pytest.raises(PositionTrimmedError, match=f"offset {start}"):
                client.scan_log(LOG, start).read_all()
        with pytest.raises(PositionTrimmedError):
            client.scan_log(LOG, quire.Position(1, 1, 1))
        assert client.scan_log(LOG, 4).read_all().column("offset")[0].as_py() == 4
        assert len(client.scan_log(LOG).read_all()) == 26
        assert len(client.scan_log(LOG, quire.Position(1, 1, 2)).read_all()) == 26, "another end"
        assert len(client.scan_log(LOG, 5, 5).read_all()) == 0, "nothing was asked for"
        client.trim_log(LOG, quire.LATEST)
        with pytest.raises(PositionTrimmedError, match="offset 4"):
            client.scan_log(LOG, 4)
        assert len(client.scan_log(LOG, 30).read_all()) == 0


def test_requests_that_are_wrong_are_refused() -> None:
    with connected() as client:
        with pytest.raises(NoSuchLogError):
            client.scan_log(LOG)
        fill(client, 10)
        with pytest.raises(InvalidRequestError, match="'colour'"):
            client.scan_log(LOG, columns=["colour"])
        for place in (-1, "1.0.0", True):
            with pytest.raises(InvalidRequestError, match="not a place"):
                client.scan_log(LOG, place)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequestError, match="time zone"):
            make_bounds(datetime(2026, 1, 1), quire.LATEST)


def test_a_reader_of_a_closed_client_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "ROWS_MAX", 4)

    async def main(cluster: MemoryCluster) -> Any:
        async with quire.connect(cluster.store_uri) as client:
            async with await client.open_log(LOG) as log:
                await log.append_many([b"x"] * 10)
            return await client.scan_log(LOG)

    with MemoryCluster() as cluster:
        reader = asyncio.run(main(cluster))
        with pytest.raises(HandleClosedError, match="client of this scan"):
            reader.read_next_batch()


def scene(body: Callable[[quire.Client], Awaitable[None]]) -> None:
    async def main() -> None:
        with MemoryCluster() as cluster:
            async with quire.connect(cluster.store_uri) as client:
                async with await client.open_log(LOG) as log:
                    await log.append_many([b"a", b"b"])
                await body(client)

    asyncio.run(main())


def test_an_asynchronous_program_reads_in_another_thread() -> None:
    async def body(client: quire.Client) -> None:
        reader = await client.scan_log(LOG, columns=["payload"])
        table = await asyncio.to_thread(reader.read_all)
        assert table.to_pydict() == {"payload": [b"a", b"b"]}

    scene(body)


def test_the_event_loop_is_not_made_to_wait_for_itself() -> None:
    async def body(client: quire.Client) -> None:
        reader = await client.scan_log(LOG)
        with pytest.raises(InvalidRequestError, match=r"asyncio\.to_thread"):
            reader.read_all()

    scene(body)


def test_without_pyarrow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "quire.columns")
    monkeypatch.delattr(quire, "columns")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with connected() as client:
        fill(client, 10)
        with pytest.raises(MissingExtraError, match=r"pip install 'quire\[arrow\]'") as told:
            client.scan_log(LOG)
        assert (told.value.package, told.value.extra) == ("pyarrow", "arrow")

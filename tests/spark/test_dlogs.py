"""Logs of DistributedLog behind the seam of format `bookkeeper`, over ledgers in memory."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from quire.bookkeeper.dlog.log import DlogRecord
from quire.bookkeeper.dlog.names import Dlsn
from quire.bookkeeper.pieces import EntryPlace, LedgerPiece
from quire.client import Client
from quire.errors import ConfigurationError, CorruptEntryError, UnreadableContentError
from quire.spark.bookkeeper import dlogs
from quire.spark.bookkeeper.dlogs import COLUMNS, DistributedLogs
from quire.spark.bookkeeper.options import ForeignOptions
from quire.spark.bookkeeper.reading import ForeignRows
from tests.bookkeeper.test_dlog_logs import (
    LOG,
    WHOLE,
    complete,
    entries,
    logs,
    packet,
    read,
    unfinished,
    write,
)
from tests.spark.foreign import URI

pytestmark = pytest.mark.real_time

SYSTEM = DistributedLogs()


async def pieces(
    client: Client, begins: Mapping[int, EntryPlace] | None = None
) -> Sequence[LedgerPiece]:
    return await SYSTEM.list_pieces(client, LOG, begins or {}, b"")


async def read_all(client: Client, parts: Sequence[LedgerPiece]) -> list[DlogRecord]:
    return [
        record
        for piece in pickle.loads(pickle.dumps(parts))
        async for run in SYSTEM.read_piece(client, piece, b"")
        for record in run
    ]


async def test_wherever_a_log_is_cut_its_records_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dlogs, "RUN_BYTES", 300)  # runs of a few records
    async with logs() as (store, client):
        for number in (1, 2):
            await complete(store, client, number, entries(number * 10, 8), count=8)
        await unfinished(store, await write(client, entries(30, 3)), 3)
        whole = await read(client)
        listed = await pieces(client)
        assert [piece.number for piece in listed] == [1, 2, 3]
        assert await read_all(client, listed) == whole
        ones = [each for piece in listed for each in piece.split_into(piece.entries)]
        assert len(ones) == 10
        assert await read_all(client, ones) == whole
        later = await pieces(client, {-1: EntryPlace(2, 1)})
        assert later[0].begin == (2, 1)
        assert await read_all(client, later) == [
            each for each in whole if each.dlsn >= Dlsn(2, 1, 0)
        ]


async def test_a_segment_that_was_read_is_told_from_one_that_is_gone() -> None:
    async with logs() as (store, client):
        await complete(store, client, 1, entries(10, 4))
        (listed,) = await pieces(client)
        (rest,) = await pieces(client, {-1: listed.end})
        assert (rest.number, rest.entries) == (1, 0)
        await complete(store, client, 2, entries(20, 4))
        rest, new = await pieces(client, {-1: listed.end})
        assert (rest.number, rest.entries, new.number) == (1, 0, 2)
    async with logs() as (store, client):
        await complete(store, client, 1, entries(10, 4), truncation=WHOLE)
        await complete(store, client, 2, entries(20, 4))
        assert [each.number for each in await pieces(client, {-1: listed.end})] == [2]


async def test_a_segment_has_a_piece_though_bookies_know_of_no_entry_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nothing(*arguments: Any) -> int:
        return -1

    async with logs() as (store, client):
        await complete(store, client, 1, entries(10, 4))
        await unfinished(store, await write(client, entries(20, 4)), 2)
        whole = await read(client)
        monkeypatch.setattr("quire.ledger.reader.covered_lac", nothing)
        for begin in (EntryPlace(1, 1), EntryPlace(2, 0), EntryPlace(2, 1)):
            *earlier, newest = await pieces(client, {-1: begin})
            assert (newest.number, newest.entries) == (2, 0)
            batch = [*earlier, newest.narrow(newest.first, 1)]  # an earlier listing saw entry 1
            expected = [each for each in whole if each.dlsn >= Dlsn(*begin, 0)]
            assert await read_all(client, batch) == expected


async def test_rows_have_the_columns_of_records() -> None:
    given = {"cluster": URI, "dlog": LOG, "fromPosition": "1:0:2", "toPosition": "1:1:2"}
    options = ForeignOptions.parse(given)
    assert (options.logs, options.columns) == ((LOG,), tuple(COLUMNS))
    rows = ForeignRows(options)
    async with logs() as (store, client):
        ledger = await complete(store, client, 1, entries(10, 4))
        (piece,) = await pieces(client)
        records = await read_all(client, [piece])
    assert list(rows.add(piece, records)) == []
    (batch,) = rows.rest(piece)
    first, last = batch.to_pylist()
    assert first == {
        "log": LOG, "segment": 1, "ledger": ledger, "entry": 0, "slot": 2, "dlsn": "1:0:2",
        "txid": 11, "sequence": 1, "payload": b"11",
    }  # fmt: skip
    assert (last["dlsn"], last["payload"]) == ("1:1:1", b"12")


async def test_errors_name_the_log() -> None:
    async with logs() as (store, client):
        await complete(store, client, 1, [packet((1 << 16, 0, b"x")), b"noise"], count=1)
        with pytest.raises(CorruptEntryError, match=LOG):
            await read_all(client, await pieces(client))
        ledger = await complete(store, client, 2, entries(20, 4))
        listed = await pieces(client, {-1: EntryPlace(2, 0)})
        await client.delete_ledger(ledger, force=True)
        with pytest.raises(UnreadableContentError, match=f"{LOG}.*ledger {ledger}.*deleted"):
            await read_all(client, listed)


def test_a_log_has_one_name_however_it_is_given() -> None:
    with pytest.raises(ConfigurationError, match="topic and dlog say the same"):
        ForeignOptions.parse({"cluster": URI, "topic": "t", "dlog": LOG})
    cluster = "zk://zoo1,zoo2:2181/?ledgers=bookkeeper:/ledgers&write=true"
    for named in (
        LOG,
        f"distributedlog://zoo1:2181;zoo2{LOG}",
        f"distributedlog://zoo2;zoo1{LOG}, {LOG}, distributedlog-bk://zoo2;zoo1{LOG}",
    ):
        assert ForeignOptions.parse({"cluster": cluster, "dlog": named}).logs == (LOG,)
    with pytest.raises(ConfigurationError, match=r"is at zoo3:2181, and the store zk://zoo1,zoo2"):
        ForeignOptions.parse({"cluster": cluster, "dlog": f"{LOG}, distributedlog://zoo3{LOG}"})
    for wrong in (f"/{LOG}/", f"{LOG}/", f"{LOG}/../orders", "distributedlog:///a/b"):
        with pytest.raises(ConfigurationError, match=r"dlog=.*is not in the form"):
            ForeignOptions.parse({"cluster": cluster, "dlog": wrong})
    with pytest.raises(ConfigurationError, match=r"dlog='orders'.*/namespace/name"):
        ForeignOptions.parse({"cluster": URI, "dlog": "orders"})

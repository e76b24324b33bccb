"""Rows of an outbox become records once, in commit order: on real databases."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from sqlalchemy import MetaData, create_engine, insert
from sqlalchemy.ext.asyncio import create_async_engine

import quire.sql
import quire.sync.sql
from quire.errors import (
    ConfigurationError,
    LogReplacedError,
    OutboxRowError,
    PositionMovedError,
)
from quire.log.records.position import Record
from quire.sql.adapters import async_database
from quire.sql.database import Database
from quire.sql.models import outbox_table
from quire.sql.outbox import BYTES_MAX, TRIMMED, OutboxStatements, Row, Sent, first_of
from quire.sql.places import pyformat
from quire.sql.relaying import OutboxTable
from quire.sql.threaded import ThreadedDatabase
from quire.sync import SyncClient
from tests.sql.outboxes import INSERT, LOG, drain, insert_rows
from tests.support.postgres import Postgres


def read(client: SyncClient) -> list[Record]:
    return list(client.read_log(LOG))


def payloads(client: SyncClient) -> list[bytes]:
    return [record.payload for record in read(client)]


def test_rows_become_records_and_are_deleted(client: SyncClient, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as application:
        for number in range(5):
            application.execute(INSERT, (LOG, b"%d" % number))
        application.execute(INSERT, ("other", b"not ours"))
        assert drain(client, lambda: psycopg.connect(dsn), records=2) == 5
        assert payloads(client) == [b"0", b"1", b"2", b"3", b"4"]
        left = application.execute("SELECT log FROM quire_outbox").fetchall()
        assert left == [("other",)]
    assert drain(client, lambda: psycopg.connect(dsn)) == 0


def test_rows_have_keys_headers_and_times_and_can_be_marked(client: SyncClient, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as application:
        application.execute(
            "INSERT INTO quire_outbox (log, payload, key, headers, event_time_ms) "
            "VALUES (%s, %s, %s, %s, %s)",
            (LOG, b"buy", b"alice", '{"trace": "7", "empty": null}', 1234),
        )
        application.execute(INSERT, (LOG, b"sell"))
        assert drain(client, lambda: psycopg.connect(dsn), mark=True) == 2
        buy, sell = read(client)
        assert (buy.key, dict(buy.headers)) == (b"alice", {"trace": b"7", "empty": None})
        assert buy.event_time_ms == 1234
        marked = application.execute("SELECT log_offset FROM quire_outbox ORDER BY id").fetchall()
        assert marked == [(buy.offset,), (sell.offset,)]
        assert drain(client, lambda: psycopg.connect(dsn), mark=True) == 0
        application.execute("DELETE FROM quire_relays")  # a relay begins anew
        assert drain(client, lambda: psycopg.connect(dsn), mark=True) == 0


def test_a_step_is_on_the_disk_before_rows_are_sent(client: SyncClient, dsn: str) -> None:
    """A step that a crash of the server takes back would send rows twice."""
    with psycopg.connect(dsn, autocommit=True) as application:
        application.execute("SET synchronous_commit = off")
        found = application.execute(
            "SELECT outbox, log, producer, sent, sending FROM quire_relays"
        ).fetchone()
        assert found is not None
        names = ("outbox", "log", "producer", "sent", "sending")
        stands = dict(zip(names, found, strict=True)) | {"next_sent": 0, "next_sending": 0}
        for setting, during in (("off", "on"), ("remote_write", "remote_write")):
            application.execute(f"SET synchronous_commit = {setting}")
            with application.transaction():
                step = pyformat(OutboxStatements("quire_outbox").step("postgresql"))
                assert application.execute(step.encode(), stands).rowcount == 1
                assert application.execute("SHOW synchronous_commit").fetchone() == (during,)
            assert application.execute("SHOW synchronous_commit").fetchone() == (setting,)


def test_a_late_commit_with_a_lower_id_is_neither_skipped_nor_first(
    client: SyncClient, dsn: str
) -> None:
    """The order is that of the commits, whatever the order of the inserts."""
    with psycopg.connect(dsn) as early, psycopg.connect(dsn) as late:
        late.execute(INSERT, (LOG, b"inserted first, committed last"))
        early.execute(INSERT, (LOG, b"inserted last, committed first"))
        early.commit()
        assert drain(client, lambda: psycopg.connect(dsn)) == 1
        late.execute(INSERT, (LOG, b"its second row"))
        late.commit()
        assert drain(client, lambda: psycopg.connect(dsn)) == 2
    assert payloads(client) == [
        b"inserted last, committed first",
        b"inserted first, committed last",
        b"its second row",
    ]


def test_two_transactions_in_one_append_are_in_commit_order(client: SyncClient, dsn: str) -> None:
    with psycopg.connect(dsn) as early, psycopg.connect(dsn) as late:
        late.execute(INSERT, (LOG, b"late"))
        early.execute(INSERT, (LOG, b"early"))
        early.commit()
        late.commit()
        late.execute(INSERT, (LOG, b"never"))
        late.rollback()
    assert drain(client, lambda: psycopg.connect(dsn)) == 2
    assert payloads(client) == [b"early", b"late"]


def test_a_commit_waits_for_one_that_has_drawn_its_number(client: SyncClient, dsn: str) -> None:
    """Else the relay could see the later number first, and take the lower one for sent."""
    with psycopg.connect(dsn) as first, psycopg.connect(dsn) as second:
        first.execute(INSERT, (LOG, b"first"))
        first.execute("SET CONSTRAINTS ALL IMMEDIATE")  # as if it were in its commit
        second.execute("SET LOCAL lock_timeout = '50ms'")
        second.execute(INSERT, (LOG, b"too early"))
        with pytest.raises(psycopg.errors.LockNotAvailable):
            second.commit()
        first.commit()
        second.rollback()
        second.execute(INSERT, (LOG, b"second"))
        second.commit()
    assert drain(client, lambda: psycopg.connect(dsn)) == 2
    assert payloads(client) == [b"first", b"second"]


def test_rows_from_before_the_trigger_are_relayed_in_order_of_their_ids(
    client: SyncClient, server: Postgres
) -> None:
    """A migration made the table, and the application was quicker than the first relay."""
    engine = create_engine(server.url(server.new_schema()))
    metadata = MetaData()
    outbox = outbox_table(metadata)
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(outbox), [{"log": LOG, "payload": b"a"}])
        connection.execute(insert(outbox), [{"log": LOG, "payload": b"b"}])
    assert drain(client, engine) == 2
    with engine.begin() as connection:
        connection.execute(insert(outbox), [{"log": LOG, "payload": b"c", "headers": "{}"}])
    assert drain(client, engine) == 1
    assert payloads(client) == [b"a", b"b", b"c"]
    engine.dispose()


def test_an_outbox_in_sqlite(client: SyncClient, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db", check_same_thread=False)) as rows:
        drain(client, rows)
        for payload in (b"a", b"b"):
            rows.execute("INSERT INTO quire_outbox (log, payload) VALUES (?, ?)", (LOG, payload))
            rows.commit()
            assert drain(client, rows) == 1  # an emptied table gives no number twice
    assert payloads(client) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"payload": 5}, "column payload has int, not bytes"),
        ({"payload": "text"}, "column payload has str, not bytes"),
        ({"key": 5}, "column key has int, not bytes"),
        ({"headers": "[" * 100_000}, "recursion"),
    ],
)
def test_a_cell_of_another_type_is_told(wrong: dict[str, Any], why: str) -> None:
    """SQLite keeps a value of any type in a column."""
    given = Row(7, b"", None, None, None)._replace(**wrong)
    with pytest.raises(OutboxRowError, match=rf"row of sequence 7 .*{why}"):
        first_of([given])


def test_an_invalid_row_stops_the_relay_after_the_rows_before(client: SyncClient, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as application:
        application.execute(INSERT, (LOG, b"good"))
        bad = "INSERT INTO quire_outbox (log, payload, headers) VALUES (%s, '', '[1]')"
        application.execute(bad, (LOG,))
        application.execute(INSERT, (LOG, b"later"))
        with pytest.raises(OutboxRowError, match=r"headers are not a JSON object.* delete the row"):
            drain(client, lambda: psycopg.connect(dsn))
        assert payloads(client) == [b"good"]
        kept = application.execute("SELECT payload FROM quire_outbox ORDER BY id").fetchall()
        assert kept == [(b"",), (b"later",)], "rows that are in the log are deleted"
        application.execute("DELETE FROM quire_outbox WHERE headers IS NOT NULL")
        drain(client, lambda: psycopg.connect(dsn))
    assert payloads(client) == [b"good", b"later"]


def test_rows_whose_records_were_trimmed_are_marked(
    client: SyncClient, outbox: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they look unsent: a relay that begins anew would send them again."""
    real = quire.sql.relaying.append

    async def dies(*given: Any) -> Any:
        places = await real(*given)
        if places:
            raise ZeroDivisionError
        return places

    insert_rows(outbox, b"a", b"b")
    with monkeypatch.context() as patch:
        patch.setattr(quire.sql.relaying, "append", dies)
        with pytest.raises(ZeroDivisionError):
            drain(client, outbox, mark=True)
    with client.open_log(LOG) as log:
        log.append(b"later")
    client.trim_log(LOG, 2)
    assert drain(client, outbox, mark=True) == 2
    marked = outbox.execute("SELECT log_offset FROM quire_outbox").fetchall()
    assert marked == [(TRIMMED,), (TRIMMED,)]
    outbox.execute("DELETE FROM quire_relays")
    outbox.commit()
    assert drain(client, outbox, mark=True) == 0


def test_large_rows_are_not_fetched_before_their_turn(
    client: SyncClient, outbox: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = OutboxTable._rows
    fetched: list[int] = []

    async def noted(*given: Any) -> Any:
        rows = await real(*given)
        fetched.append(sum(len(each.payload) for each in rows))
        return rows

    monkeypatch.setattr(OutboxTable, "_rows", noted)
    large = [bytes([number]) * (BYTES_MAX // 3) for number in range(8)]
    insert_rows(outbox, *large)
    assert drain(client, outbox) == 8
    assert payloads(client) == large
    assert 0 < max(fetched) <= BYTES_MAX


def test_a_table_that_would_need_quotes_is_refused() -> None:
    """SQLAlchemy would quote the name: in PostgreSQL the relay would read another table."""
    with pytest.raises(ConfigurationError, match="'Outbox' is not a table's name: give lower-case"):
        outbox_table(MetaData(), "Outbox")


def test_a_connection_that_a_relay_made_is_closed_after_a_wrong_argument(
    client: SyncClient, dsn: str
) -> None:
    made: list[psycopg.Connection[Any]] = []

    def connect() -> psycopg.Connection[Any]:
        made.append(psycopg.connect(dsn))
        return made[-1]

    for wrong in ({"records": 0}, {"table": "a-b"}):
        with pytest.raises(ConfigurationError):
            drain(client, connect, **wrong)
    assert [each.closed for each in made] == [True, True]


class SlowDatabase:
    """A database that is asked to begin, and takes its time."""

    def __init__(self) -> None:
        self.is_asked, self.may_begin = threading.Event(), threading.Event()
        self.ended: list[type[BaseException] | None] = []

    @contextmanager
    def begin(self, what: str) -> Iterator[None]:
        self.is_asked.set()
        assert self.may_begin.wait(10)
        try:
            yield
        except BaseException as error:
            self.ended.append(type(error))
            raise


@pytest.mark.real_time
async def test_a_relay_that_is_cancelled_while_a_transaction_begins_leaves_none_open() -> None:
    slow = SlowDatabase()
    database = ThreadedDatabase(cast("Database", slow))

    async def work() -> None:
        async with database.begin("a relay"):
            raise AssertionError("it was cancelled")

    working = asyncio.create_task(work())
    assert await asyncio.to_thread(slow.is_asked.wait, 10)
    working.cancel()
    slow.may_begin.set()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert slow.ended == [asyncio.CancelledError]


def test_a_recreated_log_is_told(client: SyncClient, dsn: str) -> None:
    client.delete_log(LOG)
    with pytest.raises(LogReplacedError):
        drain(client, lambda: psycopg.connect(dsn))


@pytest.mark.parametrize("moment", ["before the append", "after the append", "after the note"])
def test_a_relay_that_dies_anywhere_appends_once(
    client: SyncClient, dsn: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(dsn, autocommit=True) as application:
        for number in range(4):
            application.execute(INSERT, (LOG, b"%d" % number))
        dying(monkeypatch, moment)
        with pytest.raises(ZeroDivisionError):
            drain(client, lambda: psycopg.connect(dsn), records=2)
        application.execute(INSERT, (LOG, b"4"))  # the next append could have other rows
        drain(client, lambda: psycopg.connect(dsn), records=3)
    assert payloads(client) == [b"0", b"1", b"2", b"3", b"4"]


def dying(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Let the relay die the second time that it comes to a moment."""
    real, step = quire.sql.relaying.append, OutboxTable.step
    left = {"append": 3, "note": 2}

    def is_due(name: str) -> bool:
        left[name] -= 1
        return left[name] == 0

    async def append(leader: Any, sent: Any, rows: Any) -> Any:
        die = moment.endswith("the append") and is_due("append")
        if die and moment.startswith("before"):
            raise ZeroDivisionError
        places = await real(leader, sent, rows)
        if die:
            raise ZeroDivisionError
        return places

    async def stepping(self: OutboxTable, *given: Any) -> Any:
        found = await step(self, *given)
        if moment == "after the note" and is_due("note"):
            raise ZeroDivisionError
        return found

    monkeypatch.setattr(quire.sql.relaying, "append", append)
    monkeypatch.setattr(OutboxTable, "step", stepping)


@pytest.mark.real_time
async def test_a_late_relay_notes_nothing(server: Postgres) -> None:
    """Its note is fenced by the relay's row; its appends are by the takeover of the log."""
    engine = create_async_engine(server.url(server.new_schema()))
    made = [
        OutboxTable(async_database(engine), OutboxStatements(), LOG, mark=False, records=9)
        for _ in range(2)
    ]

    for each in made:
        await each.prepare()
    old, new = [await each.open("id-1", random.Random(1)) for each in made]
    assert old == new
    async with engine.begin() as connection:
        await connection.exec_driver_sql(
            "INSERT INTO quire_outbox (log, payload) VALUES ('orders', 'a')"
        )
    await made[1].step(new, (), ())
    with pytest.raises(PositionMovedError, match="another process went on"):
        await made[0].step(old, (), ())
    await engine.dispose()


def row(sequence: int, size: int = 1) -> Row:
    return Row(sequence, bytes(size), None, None, None)


def test_an_append_has_the_rows_that_fit_and_one_at_least() -> None:
    large = row(1, BYTES_MAX + 1)
    assert first_of([large, row(2)]) == [large]
    assert first_of([row(1), row(2)]) == [row(1), row(2)]
    half = BYTES_MAX // 2
    assert len(first_of([row(1, half), row(2, half), row(3)])) == 1
    assert first_of([]) == []


def test_a_relay_knows_whether_an_append_was_begun() -> None:
    assert Sent("p", "id", 3, 7).is_pending
    assert not Sent("p", "id", 7, 7).is_pending

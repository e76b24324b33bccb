"""Rows of an outbox that no relay would send are told, and found without a look at sent ones."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import MetaData, create_engine

from quire.errors import OutboxSkippedError
from quire.sql.models import outbox_table
from quire.sql.outbox import OutboxStatements
from quire.sql.places import pyformat
from quire.sync import SyncClient
from tests.sql.outboxes import INSERT, LOG, drain, insert_rows


@pytest.mark.parametrize(("mark", "numbered"), [(False, True), (True, True), (True, False)])
def test_a_row_that_would_never_be_sent_is_told(
    client: SyncClient, dsn: str, mark: bool, numbered: bool
) -> None:
    with psycopg.connect(dsn, autocommit=True) as application:
        application.execute(INSERT, (LOG, b"sent"))
        assert drain(client, lambda: psycopg.connect(dsn), mark=mark) == 1
        assert drain(client, lambda: psycopg.connect(dsn), mark=mark) == 0
        application.execute("TRUNCATE quire_outbox RESTART IDENTITY")
        if not numbered:
            application.execute("ALTER TABLE quire_outbox DISABLE TRIGGER ALL")
        application.execute(INSERT, (LOG, b"skipped"))
        application.execute(INSERT, ("other", b"not ours"))
        why = "sequence 2, and those up to 2" if numbered else "row 1 of quire_outbox has no seq"
        with pytest.raises(OutboxSkippedError, match=why):
            drain(client, lambda: psycopg.connect(dsn), mark=mark)
        application.execute("DELETE FROM quire_outbox")
        assert drain(client, lambda: psycopg.connect(dsn), mark=mark) == 0


@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_row_set_back_above_a_kept_one_is_told(
    client: SyncClient, outbox: sqlite3.Connection, is_indexed: bool
) -> None:
    """A relay that marks rows keeps those that were sent, and one of them may be the lowest."""
    if not is_indexed:  # as tables of earlier versions
        outbox.execute("DROP INDEX quire_outbox_unsent")
    insert_rows(outbox, b"1", b"2", b"3")
    assert drain(client, outbox, mark=True) == 3
    outbox.execute("DELETE FROM quire_outbox WHERE sequence = 2")
    insert_rows(outbox, b"set back")
    outbox.execute("UPDATE quire_outbox SET sequence = 2 WHERE sequence = 4")
    outbox.commit()
    with pytest.raises(OutboxSkippedError, match="has the sequence 2, and those up to 3"):
        drain(client, outbox, mark=True)


def test_rows_that_are_never_sent_are_found_in_the_index(
    outbox: sqlite3.Connection, dsn: str
) -> None:
    """A relay that marks rows keeps millions of sent ones: none of them may be read."""
    strays = OutboxStatements().strays
    given = {"log": LOG, "sent": 1_000_000}
    plan = outbox.execute(f"EXPLAIN QUERY PLAN {strays}", given).fetchall()
    looks = [step[-1] for step in plan if "quire_outbox" in step[-1]]
    assert len(looks) == 2
    for look, bound in zip(looks, ("sequence=?", "sequence<?"), strict=True):
        assert "USING INDEX quire_outbox_unsent" in look
        assert f"(log=? AND {bound})" in look
    with psycopg.connect(dsn, autocommit=True) as application:
        application.execute(
            "INSERT INTO quire_outbox (log, payload, log_offset) "
            "SELECT %s, '', n FROM generate_series(1, 5000) AS n",
            (LOG,),
        )
        application.execute("ANALYZE quire_outbox")
        explain = f"EXPLAIN {pyformat(strays)}"
        plan = [row[0] for row in application.execute(explain.encode(), given)]
        assert any("quire_outbox_unsent" in step for step in plan)
        assert not any("Seq Scan" in step for step in plan)


def test_an_outbox_of_sqlalchemy_has_the_index_of_a_relay(
    client: SyncClient, tmp_path: Path
) -> None:
    """Else a migration that is generated would drop it."""
    definitions = []
    for name, is_model in (("a", True), ("b", False)):
        engine = create_engine(f"sqlite:///{tmp_path / name}.db")
        if is_model:
            metadata = MetaData()
            outbox_table(metadata)
            metadata.create_all(engine)
        drain(client, engine)
        engine.dispose()
        with closing(sqlite3.connect(tmp_path / f"{name}.db")) as made:
            found = made.execute("SELECT sql FROM sqlite_master WHERE sql LIKE 'CREATE INDEX%'")
            definitions.append([text for (text,) in found])
    assert definitions[0] == definitions[1]
    assert len(definitions[0]) == 1

"""The blocking twin, over the databases that programs have: SQLite, psycopg and SQLAlchemy."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

import quire.sql
import quire.sync.sql
from quire.errors import ConfigurationError, InvalidRequestError, TransactionEndedError
from quire.sync import Record, SyncClient
from quire.testing import MemoryCluster
from tests.support.postgres import Postgres

LOG = "orders"


@pytest.fixture
def client() -> Iterator[SyncClient]:
    """A client of a cluster whose log has five records."""
    with MemoryCluster() as cluster, quire.sync.connect(cluster.store_uri) as connected:
        with connected.open_log(LOG) as log:
            log.append_many([b"%d" % number for number in range(5)])
        yield connected


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "effects.db")) as connection:
        connection.execute("CREATE TABLE effects (at INTEGER PRIMARY KEY, payload BLOB)")
        yield connection


def insert(connection: sqlite3.Connection, records: Sequence[Record]) -> None:
    connection.executemany(
        "INSERT INTO effects VALUES (?, ?)", [(each.offset, each.payload) for each in records]
    )


def drain(client: SyncClient, connection: Any, apply: Any, **options: Any) -> int:
    return quire.sync.sql.consume(
        client, LOG, connection, apply, consumer="billing", follow=False, **options
    )


def test_records_are_applied_once_to_sqlite(client: SyncClient, rows: sqlite3.Connection) -> None:
    assert drain(client, rows, insert, records=2) == 5
    assert drain(client, rows, insert) == 0
    found = rows.execute("SELECT at, payload FROM effects").fetchall()
    assert found == [(number, b"%d" % number) for number in range(5)]
    place = rows.execute("SELECT consumer, log, next_offset FROM quire_positions").fetchall()
    assert place == [("billing", LOG, 5)]


def test_ctrl_c_rolls_back_and_the_next_run_goes_on(
    client: SyncClient, rows: sqlite3.Connection
) -> None:
    def interrupted(connection: sqlite3.Connection, records: Sequence[Record]) -> None:
        insert(connection, records)
        if records[0].offset == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drain(client, rows, interrupted, records=2)
    assert rows.execute("SELECT count(*) FROM effects").fetchone() == (2,)
    assert drain(client, rows, insert) == 3


def test_a_script_that_commits_is_told(client: SyncClient, rows: sqlite3.Connection) -> None:
    def script(connection: sqlite3.Connection, records: Sequence[Record]) -> None:
        connection.executescript("SELECT 1")

    with pytest.raises(TransactionEndedError, match="apply of consumer 'billing' ended its"):
        drain(client, rows, script)


def test_an_open_transaction_of_the_caller_is_told(
    client: SyncClient, rows: sqlite3.Connection, server: Postgres
) -> None:
    rows.execute("INSERT INTO effects VALUES (99, '')")
    with pytest.raises(InvalidRequestError, match="open transaction"):
        drain(client, rows, insert)
    rows.rollback()
    with psycopg.connect(server.new_schema()) as connection:
        connection.execute("SELECT 1")
        with pytest.raises(InvalidRequestError, match="open transaction"):
            drain(client, connection, insert)


def test_a_consumer_survives_the_loss_of_its_connection(
    client: SyncClient, server: Postgres
) -> None:
    dsn = server.new_schema()
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("CREATE TABLE effects (at BIGINT PRIMARY KEY)")
        ended: list[int] = []

        def apply(connection: psycopg.Connection[Any], records: Sequence[Record]) -> None:
            for each in records:
                connection.execute("INSERT INTO effects VALUES (%s)", (each.offset,))
            if records[0].offset == 2 and not ended:
                ended.append(connection.info.backend_pid)
                admin.execute("SELECT pg_terminate_backend(%s)", (ended[0],))

        assert drain(client, lambda: psycopg.connect(dsn), apply, records=2) == 5
        assert ended
        assert admin.execute("SELECT count(*) FROM effects").fetchone() == (5,)
        held = psycopg.connect(dsn)
        with closing(held):
            assert drain(client, held, apply) == 0


def test_an_engine_gives_its_connection(client: SyncClient, server: Postgres) -> None:
    engine: Engine = create_engine(server.url(server.new_schema()))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE effects (at BIGINT PRIMARY KEY)"))

    def apply(connection: Any, records: Sequence[Record]) -> None:
        connection.execute(
            text("INSERT INTO effects VALUES (:at)"), [{"at": each.offset} for each in records]
        )

    assert drain(client, engine, apply, table="billing_places") == 5
    with engine.begin() as connection:
        assert connection.execute(text("SELECT sum(at) FROM effects")).scalar() == 10
        assert connection.execute(text("SELECT count(*) FROM billing_places")).scalar() == 1
    engine.dispose()


@pytest.mark.real_time
async def test_an_asynchronous_engine_gives_its_connection(server: Postgres) -> None:
    engine = create_async_engine(server.url(server.new_schema()))
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE effects (at BIGINT PRIMARY KEY)"))

    async def apply(connection: AsyncConnection, records: Sequence[Record]) -> None:
        await connection.execute(
            text("INSERT INTO effects VALUES (:at)"), [{"at": each.offset} for each in records]
        )

    with MemoryCluster() as cluster:
        async with quire.connect(cluster.store_uri) as client:
            async with await client.open_log(LOG) as log:
                await log.append_many([b"a", b"b"])
            count = await quire.sql.consume(
                client, LOG, engine, apply, consumer="billing", follow=False
            )
    assert count == 2
    async with engine.begin() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM effects"))).scalar() == 2
    await engine.dispose()


def test_a_database_of_the_other_kind_names_the_module_for_it(client: SyncClient) -> None:
    engine = create_async_engine("sqlite+aiosqlite://")
    with pytest.raises(ConfigurationError, match=r"With a connection of asyncio use quire\.sql"):
        drain(client, engine, insert)


def test_an_unknown_database_is_told(client: SyncClient) -> None:
    engine = create_engine("sqlite://")
    engine.dialect.name = "mysql"
    with pytest.raises(InvalidRequestError, match="'mysql'"):
        drain(client, engine, insert)
    engine.dispose()

"""What a database promises a consumer (`quire.sql.port`): over every adapter, and in memory."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from quire.errors import ConfigurationError, PositionMovedError, TransactionEndedError
from quire.log.records.position import Position
from quire.sql import AsyncTarget, Move, Place, Target
from quire.sql.adapters import async_target, target
from quire.sql.places import TABLE
from quire.sql.sqlalchemy import is_to_begin
from tests.sql.memory_target import MemoryDatabase, MemoryTarget
from tests.support.postgres import Postgres

FIRST = Place("id-1", Position(1, 0, 1), 1)
SECOND = Place("id-1", Position(1, 1, 0), 7)
BEGIN = Move("billing", "orders", None, FIRST)
GO_ON = Move("billing", "orders", FIRST, SECOND)


class Asynchronous:
    """A blocking target as the suite calls it."""

    def __init__(self, blocking: Target) -> None:
        self.blocking = blocking

    async def prepare(self) -> None:
        self.blocking.prepare()

    async def load(self, consumer: str, log: str) -> Place | None:
        return self.blocking.load(consumer, log)

    @asynccontextmanager
    async def transaction(self, move: Move) -> AsyncIterator[Any]:
        with self.blocking.transaction(move) as handle:
            yield handle

    def is_transient(self, error: BaseException) -> bool:
        return self.blocking.is_transient(error)

    async def close(self) -> None:
        self.blocking.close()


class Subject(AbstractAsyncContextManager["Subject"]):
    """A database, and how its tests connect and read rows. Connections are closed at the end."""

    def __init__(self, connect: Callable[[], Any], rows: Callable[[], list[str]]) -> None:
        self.connect = connect
        self.rows = rows
        self._opened: list[Any] = []

    async def open(self) -> AsyncTarget:
        """Return one more target over a connection of its own."""
        connection = self.connect()
        if asyncio.iscoroutine(connection):
            connection = await connection
        if isinstance(connection, MemoryTarget):
            return connection
        self._opened.append(connection)
        try:
            return async_target(connection, TABLE)
        except ConfigurationError:
            return Asynchronous(target(connection, TABLE))

    async def __aexit__(self, *_: object) -> None:
        for connection in self._opened:
            bound = getattr(connection, "kw", {}).get("bind", connection)
            closed = bound.dispose() if hasattr(bound, "dispose") else bound.close()
            if asyncio.iscoroutine(closed):
                await closed


async def write(handle: Any, value: str) -> None:
    if isinstance(handle, list):
        handle.append(value.encode())
    elif isinstance(handle, sqlite3.Connection | psycopg.Connection):
        handle.execute(f"INSERT INTO effects VALUES ('{value}')")
    elif isinstance(handle, psycopg.AsyncConnection):
        await handle.execute(f"INSERT INTO effects VALUES ('{value}')")
    else:
        written = handle.execute(text(f"INSERT INTO effects VALUES ('{value}')"))
        if asyncio.iscoroutine(written):
            await written


def memory() -> Subject:
    database = MemoryDatabase()
    return Subject(
        lambda: MemoryTarget(database), lambda: [each.decode() for each in database.rows]
    )


def in_sqlite(name: str, file: Path) -> Subject:
    with closing(sqlite3.connect(file)) as made:
        made.execute("CREATE TABLE effects (value TEXT)")

    def rows() -> list[str]:
        with closing(sqlite3.connect(file)) as read:
            return [value for (value,) in read.execute("SELECT value FROM effects")]

    soon = {"timeout": 0.05}
    makers: dict[str, Callable[[], Any]] = {
        "sqlite": lambda: sqlite3.connect(file, timeout=0.05, check_same_thread=False),
        "sqlite engine": lambda: create_engine(f"sqlite:///{file}", connect_args=soon),
        "sqlite async session": lambda: async_sessionmaker(
            create_async_engine(f"sqlite+aiosqlite:///{file}", connect_args=soon)
        ),
    }
    return Subject(makers[name], rows)


def in_postgres(name: str, server: Postgres) -> Subject:
    dsn = server.new_schema()
    url = server.url(dsn)
    with psycopg.connect(dsn) as made:
        made.execute("CREATE TABLE effects (value TEXT)")

    def rows() -> list[str]:
        with psycopg.connect(dsn) as read:
            return [value for (value,) in read.execute("SELECT value FROM effects")]

    makers: dict[str, Callable[[], Any]] = {
        "psycopg": lambda: psycopg.connect(dsn),
        "psycopg autocommit": lambda: psycopg.connect(dsn, autocommit=True),
        "psycopg async": lambda: psycopg.AsyncConnection.connect(dsn),
        "engine": lambda: create_engine(url),
        "session": lambda: sessionmaker(create_engine(url)),
        "async engine": lambda: create_async_engine(url),
        "async session": lambda: async_sessionmaker(create_async_engine(url)),
    }
    return Subject(makers[name], rows)


NAMES = (
    "memory", "sqlite", "psycopg", "psycopg autocommit", "psycopg async", "engine", "session",
    "async engine", "async session", "sqlite engine", "sqlite async session",
)  # fmt: skip

pytestmark = pytest.mark.real_time


@pytest.fixture(params=NAMES)
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    name: str = request.param
    if name == "memory":
        return memory()
    if "sqlite" in name:
        return in_sqlite(name, tmp_path / "effects.db")
    return in_postgres(name, request.getfixturevalue("server"))


async def test_a_move_and_its_effects_are_there_together(subject: Subject) -> None:
    one, two = await subject.open(), await subject.open()
    await one.prepare()
    await two.prepare()
    assert await one.load("billing", "orders") is None
    async with one.transaction(BEGIN) as handle:
        await write(handle, "a")
    assert await two.load("billing", "orders") == FIRST
    assert await two.load("billing", "others") is None
    assert await two.load("shipping", "orders") is None
    async with two.transaction(GO_ON) as handle:
        await write(handle, "b")
    assert await one.load("billing", "orders") == SECOND
    assert subject.rows() == ["a", "b"]


async def write_and_raise(one: AsyncTarget, move: Move, error: BaseException) -> None:
    async with one.transaction(move) as handle:
        await write(handle, "never")
        raise error


async def write_and_end(one: AsyncTarget, end: str) -> None:
    async with one.transaction(BEGIN) as handle:
        await write(handle, end)
        ended = getattr(handle, end)()
        if asyncio.iscoroutine(ended):
            await ended


async def test_a_block_that_raises_leaves_nothing(subject: Subject) -> None:
    one = await subject.open()
    await one.prepare()
    with pytest.raises(ZeroDivisionError):
        await write_and_raise(one, BEGIN, ZeroDivisionError())
    assert await one.load("billing", "orders") is None
    assert subject.rows() == []
    async with one.transaction(BEGIN) as handle:
        await write(handle, "b")
    with pytest.raises(asyncio.CancelledError):
        await write_and_raise(one, GO_ON, asyncio.CancelledError())
    assert await one.load("billing", "orders") == FIRST
    assert subject.rows() == ["b"]


async def test_a_late_move_is_fenced(subject: Subject) -> None:
    old, new = await subject.open(), await subject.open()
    await old.prepare()
    async with new.transaction(BEGIN):
        pass
    with pytest.raises(PositionMovedError, match="'billing' of log 'orders' is at offset 1, not"):
        async with old.transaction(BEGIN) as handle:
            await write(handle, "late")
    async with new.transaction(GO_ON):
        pass
    with pytest.raises(PositionMovedError, match="is at offset 7, not at offset 1"):
        async with old.transaction(GO_ON) as handle:
            await write(handle, "late")
    assert subject.rows() == []
    assert await old.load("billing", "orders") == SECOND


async def test_a_move_in_another_log_of_the_name_is_fenced(subject: Subject) -> None:
    one = await subject.open()
    await one.prepare()
    async with one.transaction(BEGIN):
        pass
    other = Place("id-2", FIRST.position, FIRST.offset)
    with pytest.raises(PositionMovedError):
        async with one.transaction(Move("billing", "orders", other, SECOND)):
            pass


async def test_of_two_moves_at_once_one_is_made(subject: Subject) -> None:
    """The other one waits, or fails with an error that another attempt mends: it never writes."""
    one = await subject.open()
    await one.prepare()
    entered = asyncio.Event()

    async def late() -> bool:
        two = await subject.open()
        entered.set()
        try:
            async with two.transaction(BEGIN) as handle:
                await write(handle, "two")
        except Exception as error:
            return isinstance(error, PositionMovedError) or two.is_transient(error)
        return False

    async with one.transaction(BEGIN) as handle:
        if isinstance(one, Asynchronous):  # a call that blocks needs a thread of its own
            waiting = asyncio.ensure_future(asyncio.to_thread(asyncio.run, late()))
        else:
            waiting = asyncio.ensure_future(late())
            await entered.wait()
        await write(handle, "one")
    assert await waiting
    assert subject.rows() == ["one"]


async def run(handle: Any, statement: str) -> None:
    if not isinstance(handle, sqlite3.Connection | psycopg.Connection | psycopg.AsyncConnection):
        statement = text(statement)  # type: ignore[assignment]
    done = handle.execute(statement)
    if asyncio.iscoroutine(done):
        await done


async def write_and_fail(one: AsyncTarget) -> None:
    async with one.transaction(BEGIN) as handle:
        await write(handle, "never")
        with contextlib.suppress(Exception):
            await run(handle, "INSERT INTO nothing VALUES (1)")


async def run_and_write(one: AsyncTarget, end: str) -> None:
    async with one.transaction(BEGIN) as handle:
        await run(handle, end)
        await write(handle, "apart")


POSTGRES = [each for each in NAMES[1:] if "sqlite" not in each]


@pytest.mark.parametrize("subject", POSTGRES, indirect=True)
async def test_a_failed_statement_that_was_caught_is_an_error(subject: Subject) -> None:
    """PostgreSQL would answer the commit with a rollback, and no error."""
    one = await subject.open()
    await one.prepare()
    with pytest.raises(TransactionEndedError) as raised:
        await write_and_fail(one)
    assert any("savepoint" in note for note in raised.value.__notes__)
    assert await one.load("billing", "orders") is None
    async with one.transaction(BEGIN) as handle:
        await write(handle, "a")
    assert subject.rows() == ["a"]


@pytest.mark.parametrize("subject", NAMES[1:], indirect=True)
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
async def test_a_transaction_that_sql_ended_is_an_error(subject: Subject, end: str) -> None:
    one = await subject.open()
    await one.prepare()
    with pytest.raises((TransactionEndedError, psycopg.Error)):
        await run_and_write(one, end)


class CommitsByItself(sqlite3.Connection):
    """As a connection of Python 3.12 with autocommit=True: these calls do nothing."""

    def commit(self) -> None:
        pass

    def rollback(self) -> None:
        pass


@pytest.mark.parametrize("kind", ["connection", "engine", "sessions"])
async def test_a_driver_that_commits_by_itself_has_transactions(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "effects.db"
    subject = in_sqlite("sqlite", file)
    if kind == "connection":
        source: Any = sqlite3.connect(file, isolation_level=None, factory=CommitsByItself)
    else:
        source = create_engine(f"sqlite:///{file}", connect_args={"isolation_level": None})
    one = Asynchronous(target(sessionmaker(source) if kind == "sessions" else source, TABLE))
    await one.prepare()
    with pytest.raises(ZeroDivisionError):
        await write_and_raise(one, BEGIN, ZeroDivisionError())
    assert await one.load("billing", "orders") is None
    async with one.transaction(BEGIN) as handle:
        await write(handle, "a")
    assert await one.load("billing", "orders") == FIRST
    assert subject.rows() == ["a"]
    if kind == "connection":
        source.close()
    else:
        source.dispose()


async def test_an_engine_that_cannot_commit_is_refused() -> None:
    """SQLAlchemy's commit does nothing in a connection of Python 3.12 with autocommit=True."""
    with pytest.raises(ConfigurationError, match="autocommit=True, where it cannot commit"):
        is_to_begin(SimpleNamespace(autocommit=True, in_transaction=False))
    assert is_to_begin(SimpleNamespace(autocommit=-1, in_transaction=False))


@pytest.mark.parametrize("options", [{"isolation_level": "AUTOCOMMIT"}, {}], ids=["made", "later"])
async def test_an_engine_that_commits_by_itself_is_refused(
    options: dict[str, str], tmp_path: Path
) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'effects.db'}", **options)
    if not options:
        engine = engine.execution_options(isolation_level="AUTOCOMMIT")
    for source in (engine, sessionmaker(engine)):
        with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
            target(source, TABLE).prepare()
    engine.dispose()


@pytest.mark.parametrize("subject", NAMES[1:], indirect=True)
@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_effects_that_end_the_transaction_are_an_error(subject: Subject, end: str) -> None:
    one = await subject.open()
    await one.prepare()
    with pytest.raises((TransactionEndedError, psycopg.ProgrammingError)):
        await write_and_end(one, end)

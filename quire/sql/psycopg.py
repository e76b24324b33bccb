"""PostgreSQL through psycopg 3, blocking and asynchronous, as `Target` and `AsyncTarget`.

A connection that was given is used as it is. A function that makes connections is called for the
first one, and again when the connection was lost: then a consumer survives a restart of the server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias, cast

import psycopg
from psycopg.pq import TransactionStatus

from quire.errors import InvalidRequestError, PositionMovedError
from quire.sql.places import Move, Place, PlaceStatements, pyformat
from quire.sql.transient import is_transient

DIALECT = "postgresql"

Connection: TypeAlias = psycopg.Connection[Any]
AsyncConnection: TypeAlias = psycopg.AsyncConnection[Any]


class PsycopgTarget:
    """A consumer's table and effects over `psycopg.Connection`."""

    def __init__(
        self,
        connection: Connection,
        statements: PlaceStatements,
        connect: Callable[[], Connection] | None = None,
    ) -> None:
        self._connection = connection
        self._statements = statements
        self._connect = connect

    def prepare(self) -> None:
        """Create the table of places if it is missing."""
        with self._transaction() as connection:
            if _is_there(_plain(connection).execute(self._statements.exists(DIALECT)).fetchone()):
                return
            for statement in self._statements.create(DIALECT):
                connection.execute(cast("Any", statement))

    def load(self, consumer: str, log: str) -> Place | None:
        """Return a consumer's place, None before its first move."""
        with self._transaction() as connection:
            return self._load(connection, consumer, log)

    def _load(self, connection: Connection, consumer: str, log: str) -> Place | None:
        query = pyformat(self._statements.load)
        found = _plain(connection).execute(query, {"consumer": consumer, "log": log})
        return self._statements.place_of(found.fetchone())

    @contextmanager
    def transaction(self, move: Move) -> Iterator[Connection]:
        """Return a transaction that has made a move. psycopg rejects a commit in the block."""
        with self._transaction() as connection:
            statement = cast("Any", pyformat(self._statements.move(DIALECT, move)))
            if connection.execute(statement, move.parameters()).rowcount != 1:
                found = self._load(connection, move.consumer, move.log)
                raise PositionMovedError(move.consumer, move.log, str(move.expected), str(found))
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        if self._connection.closed and self._connect is not None:
            self._connection = self._connect()
        check_idle(self._connection)
        with self._connection.transaction():
            yield self._connection

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error of the database."""
        can_go_on = self._connect is not None or not self._connection.closed
        return can_go_on and isinstance(error, psycopg.Error) and is_transient(error)

    def close(self) -> None:
        """Close a connection that this target made."""
        if self._connect is not None:
            self._connection.close()


class AsyncPsycopgTarget:
    """A consumer's table and effects over `psycopg.AsyncConnection`."""

    def __init__(
        self,
        connection: AsyncConnection | None,
        statements: PlaceStatements,
        connect: Callable[[], Awaitable[AsyncConnection]] | None = None,
    ) -> None:
        self._connection = connection
        self._statements = statements
        self._connect = connect

    async def prepare(self) -> None:
        """Create the table of places if it is missing."""
        async with self._transaction() as connection:
            query = self._statements.exists(DIALECT)
            if _is_there(await (await _async_plain(connection).execute(query)).fetchone()):
                return
            for statement in self._statements.create(DIALECT):
                await connection.execute(cast("Any", statement))

    async def load(self, consumer: str, log: str) -> Place | None:
        """Return a consumer's place, None before its first move."""
        async with self._transaction() as connection:
            return await self._load(connection, consumer, log)

    async def _load(self, connection: AsyncConnection, consumer: str, log: str) -> Place | None:
        query = pyformat(self._statements.load)
        found = await _async_plain(connection).execute(query, {"consumer": consumer, "log": log})
        return self._statements.place_of(await found.fetchone())

    @asynccontextmanager
    async def transaction(self, move: Move) -> AsyncIterator[AsyncConnection]:
        """Return a transaction that has made a move. psycopg rejects a commit in the block."""
        async with self._transaction() as connection:
            statement = cast("Any", pyformat(self._statements.move(DIALECT, move)))
            if (await connection.execute(statement, move.parameters())).rowcount != 1:
                found = await self._load(connection, move.consumer, move.log)
                raise PositionMovedError(move.consumer, move.log, str(move.expected), str(found))
            yield connection

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        if self._connection is None or self._connection.closed:
            if self._connect is not None:
                self._connection = await self._connect()
            assert self._connection is not None, "a connection or a function was given"
        check_idle(self._connection)
        async with self._connection.transaction():
            yield self._connection

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error of the database."""
        can_go_on = self._connect is not None or not (
            self._connection is None or self._connection.closed
        )
        return can_go_on and isinstance(error, psycopg.Error) and is_transient(error)

    async def close(self) -> None:
        """Close a connection that this target made."""
        if self._connect is not None and self._connection is not None:
            await self._connection.close()


def check_idle(connection: Connection | AsyncConnection) -> None:
    """Raise `InvalidRequestError` while a transaction of the caller is open."""
    if connection.info.transaction_status == TransactionStatus.INTRANS:
        raise InvalidRequestError(
            "the psycopg connection has an open transaction, which would include quire's: commit "
            "it first, or connect with autocommit=True"
        )


def _plain(connection: Connection) -> Any:
    """Return a cursor of tuples, whatever rows the caller's connection makes."""
    return connection.cursor(row_factory=psycopg.rows.tuple_row)


def _async_plain(connection: AsyncConnection) -> Any:
    return connection.cursor(row_factory=psycopg.rows.tuple_row)


def _is_there(row: Any) -> bool:
    return row is not None and row[0] is not None

"""PostgreSQL through psycopg 3, blocking and asynchronous.

A connection that was given is used as it is. A function that makes connections is called for the
first one, and again when the connection was lost: then a program survives a restart of the server.

A savepoint around the block shows whether it ended the transaction, or whether a statement failed
in it: PostgreSQL answers a commit of a failed transaction with a rollback, and no error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from quire.errors import InvalidRequestError
from quire.sql.database import NOTHING, Returned
from quire.sql.places import pyformat
from quire.sql.savepoints import RELEASE, SAVEPOINT, released
from quire.sql.transient import is_transient

Connection: TypeAlias = psycopg.Connection[Any]
AsyncConnection: TypeAlias = psycopg.AsyncConnection[Any]


class _Psycopg:
    """The part that blocking and asynchronous connections share."""

    _connection: Connection | AsyncConnection | None
    _connect: object | None

    def dialect(self, handle: Any) -> str:
        """Return "postgresql"."""
        return "postgresql"

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error of the database."""
        connection = self._connection
        can_go_on = self._connect is not None or (connection is not None and not connection.closed)
        return can_go_on and isinstance(error, psycopg.Error) and is_transient(error)


class PsycopgDatabase(_Psycopg):
    """A `psycopg.Connection`."""

    def __init__(
        self, connection: Connection, connect: Callable[[], Connection] | None = None
    ) -> None:
        self._connection: Connection = connection
        self._connect: Callable[[], Connection] | None = connect

    @contextmanager
    def begin(self, what: str) -> Iterator[Connection]:
        """Return a transaction."""
        if self._connection.closed and self._connect is not None:
            self._connection = self._connect()
        check_idle(self._connection)
        with self._connection.transaction():
            self._connection.execute(SAVEPOINT)
            yield self._connection
            with released(what):
                self._connection.execute(RELEASE)

    def execute(
        self, handle: Connection, statement: str, parameters: Mapping[str, Any] = NOTHING
    ) -> Returned:
        """Run a statement in a transaction."""
        cursor: Any = handle.cursor(row_factory=tuple_row)
        with cursor:
            cursor.execute(*_call(statement, parameters))
            return Returned(cursor.fetchall() if cursor.description else [], cursor.rowcount)

    def close(self) -> None:
        """Close a connection that this adapter made."""
        if self._connect is not None:
            self._connection.close()


class AsyncPsycopgDatabase(_Psycopg):
    """A `psycopg.AsyncConnection`."""

    def __init__(
        self,
        connection: AsyncConnection | None,
        connect: Callable[[], Awaitable[AsyncConnection]] | None = None,
    ) -> None:
        self._connection: AsyncConnection | None = connection
        self._connect: Callable[[], Awaitable[AsyncConnection]] | None = connect

    @asynccontextmanager
    async def begin(self, what: str) -> AsyncIterator[AsyncConnection]:
        """Return a transaction."""
        if self._connect is not None and (self._connection is None or self._connection.closed):
            self._connection = await self._connect()
        assert self._connection is not None, "a connection or a function was given"
        check_idle(self._connection)
        async with self._connection.transaction():
            await self._connection.execute(SAVEPOINT)
            yield self._connection
            with released(what):
                await self._connection.execute(RELEASE)

    async def execute(
        self, handle: AsyncConnection, statement: str, parameters: Mapping[str, Any] = NOTHING
    ) -> Returned:
        """Run a statement in a transaction."""
        cursor: Any = handle.cursor(row_factory=tuple_row)
        async with cursor:
            await cursor.execute(*_call(statement, parameters))
            rows = await cursor.fetchall() if cursor.description else []
            return Returned(rows, cursor.rowcount)

    async def close(self) -> None:
        """Close a connection that this adapter made."""
        if self._connect is not None and self._connection is not None:
            await self._connection.close()


def check_idle(connection: Connection | AsyncConnection) -> None:
    """Raise `InvalidRequestError` while a transaction of the caller is open."""
    if connection.info.transaction_status == TransactionStatus.INTRANS:
        raise InvalidRequestError(
            "the psycopg connection has an open transaction, which would include quire's: commit "
            "it first, or connect with autocommit=True"
        )


def _call(statement: str, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of `execute`; without parameters a percent sign means itself."""
    return (pyformat(statement), parameters) if parameters else (statement,)

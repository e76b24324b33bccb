"""PostgreSQL and SQLite through SQLAlchemy 2: engines and session factories, of both kinds.

The effects get a `Connection` from an engine and a `Session` from a `sessionmaker`; likewise of the
asynchronous ones. The pool of the engine replaces connections that were lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeAlias

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker
from sqlalchemy.orm import sessionmaker

from quire.errors import PositionMovedError, TransactionEndedError
from quire.sql.places import Move, Place, PlaceStatements, check_dialect
from quire.sql.transient import is_transient

Source: TypeAlias = Engine | sessionmaker[Any]
AsyncSource: TypeAlias = AsyncEngine | async_sessionmaker[Any]

SOURCES: Final = (Engine, sessionmaker)
ASYNC_SOURCES: Final = (AsyncEngine, async_sessionmaker)


class SqlalchemyTarget:
    """A consumer's table and effects over an `Engine` or a `sessionmaker`."""

    def __init__(self, source: Source, statements: PlaceStatements) -> None:
        self._source = source
        self._statements = statements

    def prepare(self) -> None:
        """Create the table of places if it is missing."""
        with self._source.begin() as handle:
            dialect = dialect_of(handle)
            found = handle.execute(text(self._statements.exists(dialect))).fetchone()
            if found is not None and found[0] is not None:
                return
            for statement in self._statements.create(dialect):
                handle.execute(text(statement))

    def load(self, consumer: str, log: str) -> Place | None:
        """Return a consumer's place, None before its first move."""
        with self._source.begin() as handle:
            return self._load(handle, consumer, log)

    def _load(self, handle: Any, consumer: str, log: str) -> Place | None:
        query = text(self._statements.load)
        found = handle.execute(query, {"consumer": consumer, "log": log})
        return self._statements.place_of(found.fetchone())

    @contextmanager
    def transaction(self, move: Move) -> Iterator[Any]:
        """Return a transaction that has made a move."""
        with self._source.begin() as handle:
            statement = text(self._statements.move(dialect_of(handle), move))
            if handle.execute(statement, move.parameters()).rowcount != 1:
                found = self._load(handle, move.consumer, move.log)
                raise PositionMovedError(move.consumer, move.log, str(move.expected), str(found))
            with ended_is_told(move):
                yield handle
            check_open(handle, move)

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error of the database."""
        return is_transient_error(error)

    def close(self) -> None:
        """Do nothing: the engine is the caller's."""


class AsyncSqlalchemyTarget:
    """A consumer's table and effects over an `AsyncEngine` or an `async_sessionmaker`."""

    def __init__(self, source: AsyncSource, statements: PlaceStatements) -> None:
        self._source = source
        self._statements = statements

    async def prepare(self) -> None:
        """Create the table of places if it is missing."""
        async with self._source.begin() as handle:
            dialect = dialect_of(handle)
            found = (await handle.execute(text(self._statements.exists(dialect)))).fetchone()
            if found is not None and found[0] is not None:
                return
            for statement in self._statements.create(dialect):
                await handle.execute(text(statement))

    async def load(self, consumer: str, log: str) -> Place | None:
        """Return a consumer's place, None before its first move."""
        async with self._source.begin() as handle:
            return await self._load(handle, consumer, log)

    async def _load(self, handle: Any, consumer: str, log: str) -> Place | None:
        query = text(self._statements.load)
        found = await handle.execute(query, {"consumer": consumer, "log": log})
        return self._statements.place_of(found.fetchone())

    @asynccontextmanager
    async def transaction(self, move: Move) -> AsyncIterator[Any]:
        """Return a transaction that has made a move."""
        async with self._source.begin() as handle:
            statement = text(self._statements.move(dialect_of(handle), move))
            result: Any = await handle.execute(statement, move.parameters())
            if result.rowcount != 1:
                found = await self._load(handle, move.consumer, move.log)
                raise PositionMovedError(move.consumer, move.log, str(move.expected), str(found))
            with ended_is_told(move):
                yield handle
            check_open(handle, move)

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error of the database."""
        return is_transient_error(error)

    async def close(self) -> None:
        """Do nothing: the engine is the caller's."""


def dialect_of(handle: Any) -> str:
    """Return the dialect's name of a connection or session. Raises `UnsupportedError`."""
    bound = handle.get_bind() if hasattr(handle, "get_bind") else handle
    return check_dialect(bound.dialect.name)


@contextmanager
def ended_is_told(move: Move) -> Iterator[None]:
    """Turn SQLAlchemy's complaint about a transaction that is over into quire's."""
    try:
        yield
    except InvalidRequestError as error:
        if "closed transaction" not in str(error):
            raise
        raise TransactionEndedError(f"apply of consumer {move.consumer!r}") from error


def check_open(handle: Any, move: Move) -> None:
    """Raise `TransactionEndedError` if the effects committed or rolled back."""
    if not handle.in_transaction():
        raise TransactionEndedError(f"apply of consumer {move.consumer!r}")


def is_transient_error(error: BaseException) -> bool:
    """Return whether an error of SQLAlchemy may be gone next time."""
    if not isinstance(error, DBAPIError):
        return False
    return error.connection_invalidated or is_transient(error.orig)

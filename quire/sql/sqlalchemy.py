"""PostgreSQL and SQLite through SQLAlchemy 2: engines and session factories, of both kinds.

The handle is a `Connection` from an engine and a `Session` from a `sessionmaker`; likewise of the
asynchronous ones. The pool of the engine replaces connections that were lost.

A savepoint around the block shows whether it ended the transaction. In SQLite a statement begins
the transaction: the driver begins one by itself only before a change, and a driver that was told to
commit each statement never does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeAlias

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker
from sqlalchemy.orm import sessionmaker

from quire.errors import ConfigurationError, TransactionEndedError
from quire.sql.database import NOTHING, Returned
from quire.sql.places import check_dialect
from quire.sql.savepoints import RELEASE, SAVEPOINT, released
from quire.sql.transient import is_transient

Source: TypeAlias = Engine | sessionmaker[Any]
AsyncSource: TypeAlias = AsyncEngine | async_sessionmaker[Any]

SOURCES: Final = (Engine, sessionmaker)
ASYNC_SOURCES: Final = (AsyncEngine, async_sessionmaker)

BEGIN: Final = "BEGIN IMMEDIATE"


class _Sqlalchemy:
    """The part that blocking and asynchronous engines share."""

    def dialect(self, handle: Any) -> str:
        """Return the name of the engine's dialect. Raises `UnsupportedError`."""
        bound = handle.get_bind() if hasattr(handle, "get_bind") else handle
        return check_dialect(bound.dialect.name)

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error of the database."""
        if not isinstance(error, DBAPIError):
            return False
        return error.connection_invalidated or is_transient(error.orig)


class SqlalchemyDatabase(_Sqlalchemy):
    """An `Engine` or a `sessionmaker`, which stays the caller's."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @contextmanager
    def begin(self, what: str) -> Iterator[Any]:
        """Return a transaction."""
        check_transactional(self._source)
        with self._source.begin() as begun, _told(what):
            handle: Any = begun
            if self.dialect(handle) == "sqlite":
                held = handle.connection() if hasattr(handle, "get_bind") else handle
                if is_to_begin(held.connection.driver_connection):
                    handle.execute(text(BEGIN))
            handle.execute(text(SAVEPOINT))
            yield handle
            _check_open(handle, what)
            with released(what):
                handle.execute(text(RELEASE))

    def execute(
        self, handle: Any, statement: str, parameters: Mapping[str, Any] = NOTHING
    ) -> Returned:
        """Run a statement in a transaction."""
        return _outcome(handle.execute(text(statement), parameters))

    def close(self) -> None:
        """Do nothing: the engine is the caller's."""


class AsyncSqlalchemyDatabase(_Sqlalchemy):
    """An `AsyncEngine` or an `async_sessionmaker`, which stays the caller's."""

    def __init__(self, source: AsyncSource) -> None:
        self._source = source

    @asynccontextmanager
    async def begin(self, what: str) -> AsyncIterator[Any]:
        """Return a transaction."""
        check_transactional(self._source)
        async with self._source.begin() as handle:
            with _told(what):
                if self.dialect(handle) == "sqlite":
                    held = await handle.connection() if hasattr(handle, "get_bind") else handle
                    if is_to_begin((await held.get_raw_connection()).driver_connection):
                        await handle.execute(text(BEGIN))
                await handle.execute(text(SAVEPOINT))
                yield handle
                _check_open(handle, what)
                with released(what):
                    await handle.execute(text(RELEASE))

    async def execute(
        self, handle: Any, statement: str, parameters: Mapping[str, Any] = NOTHING
    ) -> Returned:
        """Run a statement in a transaction."""
        return _outcome(await handle.execute(text(statement), parameters))

    async def close(self) -> None:
        """Do nothing: the engine is the caller's."""


def check_transactional(source: Source | AsyncSource) -> None:
    """Raise `ConfigurationError` for an engine that commits each statement by itself."""
    bound: Any = source.kw.get("bind") if hasattr(source, "kw") else source
    if bound is None:
        return
    chosen = bound.get_execution_options().get("isolation_level")
    chosen = chosen or getattr(bound.dialect, "_on_connect_isolation_level", None)
    if chosen == "AUTOCOMMIT":
        raise ConfigurationError(
            "the SQLAlchemy engine has isolation_level AUTOCOMMIT, which commits the position "
            "before its effects: give an engine without it"
        )


def _outcome(result: Any) -> Returned:
    if not result.returns_rows:
        return Returned([], result.rowcount)
    rows = [tuple(row) for row in result.fetchall()]
    return Returned(rows, len(rows))


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn SQLAlchemy's complaint about a transaction that is over into quire's."""
    try:
        yield
    except InvalidRequestError as error:
        if "closed transaction" not in str(error):
            raise
        raise TransactionEndedError(what) from error


def is_to_begin(driver: Any) -> bool:
    """Return whether a connection to SQLite has no transaction yet.

    Raises `ConfigurationError` for a connection whose `commit()` does nothing.
    """
    if getattr(driver, "autocommit", False) is True:
        raise ConfigurationError(
            "the SQLAlchemy engine connects to SQLite with autocommit=True, where it cannot "
            "commit: leave that out of connect_args"
        )
    return not driver.in_transaction


def _check_open(handle: Any, what: str) -> None:
    """Raise `TransactionEndedError` if the block committed or rolled back."""
    if not handle.in_transaction():
        raise TransactionEndedError(what)

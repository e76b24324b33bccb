"""The adapter for the database that a program gives. No driver is imported before it is used.

A value is known by the module of its class: a program with an engine of SQLAlchemy has SQLAlchemy.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from quire.errors import ConfigurationError
from quire.sql.database import AsyncDatabase, Database
from quire.sql.places import PlaceStatements
from quire.sql.port import AsyncTarget, Target
from quire.sql.positions import AsyncPositionTarget, PositionTarget
from quire.sql.threaded import ThreadedDatabase

BLOCKING: Final = (
    "a sqlite3.Connection, a psycopg.Connection or a function that makes one, an Engine or a "
    "sessionmaker of SQLAlchemy"
)
ASYNCHRONOUS: Final = (
    "a psycopg.AsyncConnection or a coroutine function that makes one, an AsyncEngine or an "
    "async_sessionmaker of SQLAlchemy"
)


def target(connection: Any, table: str) -> Target:
    """Return a table of places in a database, with calls that block.

    Raises `ConfigurationError` for a value without an adapter.
    """
    statements = PlaceStatements(table)
    if isinstance(connection, Target) and not inspect.iscoroutinefunction(connection.prepare):
        return connection
    return PositionTarget(database(connection), statements)


def async_target(connection: Any, table: str) -> AsyncTarget:
    """Return a table of places in a database, with coroutines.

    Raises `ConfigurationError` for a value without an adapter.
    """
    statements = PlaceStatements(table)
    if isinstance(connection, AsyncTarget) and inspect.iscoroutinefunction(connection.prepare):
        return connection
    return AsyncPositionTarget(async_database(connection), statements)


def database(connection: Any) -> Database:
    """Return the blocking adapter of a database. Raises `ConfigurationError` without one."""
    libraries = _libraries(connection)
    if "sqlite3" in libraries:
        from quire.sql.sqlite import SqliteDatabase

        return SqliteDatabase(connection)
    if "psycopg" in libraries:
        import psycopg

        from quire.sql.psycopg import PsycopgDatabase

        if isinstance(connection, psycopg.Connection):
            return PsycopgDatabase(connection)
    if "sqlalchemy" in libraries:
        from quire.sql.sqlalchemy import SOURCES, SqlalchemyDatabase

        if isinstance(connection, SOURCES):
            return SqlalchemyDatabase(connection)
    if inspect.isfunction(connection) and not inspect.iscoroutinefunction(connection):
        return _made(connection)
    raise ConfigurationError(
        f"{connection!r} is not a database for quire.sync.sql: give {BLOCKING}. With a connection "
        "of asyncio use quire.sql"
    )


def _made(connect: Any) -> Database:
    made = connect()
    if "psycopg" in _libraries(made):
        import psycopg

        from quire.sql.psycopg import PsycopgDatabase

        if isinstance(made, psycopg.Connection):
            return PsycopgDatabase(made, connect)
    raise ConfigurationError(
        f"the function {connect.__name__} makes {made!r}, not a psycopg.Connection"
    )


def async_database(connection: Any) -> AsyncDatabase:
    """Return the adapter of a database for asyncio. Raises `ConfigurationError` without one."""
    if isinstance(connection, ThreadedDatabase):
        return connection
    libraries = _libraries(connection)
    if "psycopg" in libraries:
        import psycopg

        from quire.sql.psycopg import AsyncPsycopgDatabase

        if isinstance(connection, psycopg.AsyncConnection):
            return AsyncPsycopgDatabase(connection)
    if "sqlalchemy" in libraries:
        from quire.sql.sqlalchemy import ASYNC_SOURCES, AsyncSqlalchemyDatabase

        if isinstance(connection, ASYNC_SOURCES):
            return AsyncSqlalchemyDatabase(connection)
    if inspect.iscoroutinefunction(connection):
        from quire.sql.psycopg import AsyncPsycopgDatabase

        return AsyncPsycopgDatabase(None, connection)
    raise ConfigurationError(
        f"{connection!r} is not a database for quire.sql: give {ASYNCHRONOUS}. With a connection "
        "that blocks use quire.sync.sql"
    )


def _libraries(value: Any) -> set[str]:
    """Return the top-level modules of a value's class and of its bases."""
    return {kind.__module__.partition(".")[0] for kind in type(value).__mro__}

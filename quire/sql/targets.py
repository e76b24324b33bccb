"""The adapter for the database that a program gives. No driver is imported before it is used.

A value is known by the module of its class: a program with an engine of SQLAlchemy has SQLAlchemy.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from quire.errors import ConfigurationError
from quire.sql.places import PlaceStatements
from quire.sql.port import AsyncTarget, Target

BLOCKING: Final = (
    "a sqlite3.Connection, a psycopg.Connection or a function that makes one, an Engine or a "
    "sessionmaker of SQLAlchemy, or a Target"
)
ASYNCHRONOUS: Final = (
    "a psycopg.AsyncConnection or a coroutine function that makes one, an AsyncEngine or an "
    "async_sessionmaker of SQLAlchemy, or an AsyncTarget"
)


def target(connection: Any, table: str) -> Target:
    """Return the blocking adapter of a database. Raises `ConfigurationError` without one."""
    statements = PlaceStatements(table)
    libraries = _libraries(connection)
    if "sqlite3" in libraries:
        from quire.sql.sqlite import SqliteTarget

        return SqliteTarget(connection, statements)
    if "psycopg" in libraries:
        import psycopg

        from quire.sql.psycopg import PsycopgTarget

        if isinstance(connection, psycopg.Connection):
            return PsycopgTarget(connection, statements)
    if "sqlalchemy" in libraries:
        from quire.sql.sqlalchemy import SOURCES, SqlalchemyTarget

        if isinstance(connection, SOURCES):
            return SqlalchemyTarget(connection, statements)
    if inspect.isfunction(connection) and not inspect.iscoroutinefunction(connection):
        return _made(connection, statements)
    if isinstance(connection, Target) and not inspect.iscoroutinefunction(connection.prepare):
        return connection
    raise ConfigurationError(
        f"{connection!r} is not a database for quire.sync.sql: give {BLOCKING}. With a connection "
        "of asyncio use quire.sql"
    )


def _made(connect: Any, statements: PlaceStatements) -> Target:
    made = connect()
    if "psycopg" in _libraries(made):
        import psycopg

        from quire.sql.psycopg import PsycopgTarget

        if isinstance(made, psycopg.Connection):
            return PsycopgTarget(made, statements, connect)
    raise ConfigurationError(
        f"the function {connect.__name__} makes {made!r}, not a psycopg.Connection"
    )


def async_target(connection: Any, table: str) -> AsyncTarget:
    """Return the adapter of a database for asyncio. Raises `ConfigurationError` without one."""
    statements = PlaceStatements(table)
    libraries = _libraries(connection)
    if "psycopg" in libraries:
        import psycopg

        from quire.sql.psycopg import AsyncPsycopgTarget

        if isinstance(connection, psycopg.AsyncConnection):
            return AsyncPsycopgTarget(connection, statements)
    if "sqlalchemy" in libraries:
        from quire.sql.sqlalchemy import ASYNC_SOURCES, AsyncSqlalchemyTarget

        if isinstance(connection, ASYNC_SOURCES):
            return AsyncSqlalchemyTarget(connection, statements)
    if inspect.iscoroutinefunction(connection):
        from quire.sql.psycopg import AsyncPsycopgTarget

        return AsyncPsycopgTarget(None, statements, connection)
    if isinstance(connection, AsyncTarget) and inspect.iscoroutinefunction(connection.prepare):
        return connection
    raise ConfigurationError(
        f"{connection!r} is not a database for quire.sql: give {ASYNCHRONOUS}. With a connection "
        "that blocks use quire.sync.sql"
    )


def _libraries(value: Any) -> set[str]:
    """Return the top-level modules of a value's class and of its bases."""
    return {kind.__module__.partition(".")[0] for kind in type(value).__mro__}

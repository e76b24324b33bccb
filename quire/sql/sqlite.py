"""A database in a SQLite file, through Python's own sqlite3.

The transaction begins with `BEGIN IMMEDIATE`, so that two processes wait for each other instead of
failing when they write. A savepoint around the block shows whether it ended the transaction:
`executescript` commits without a word.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from quire.errors import InvalidRequestError, TransactionEndedError
from quire.sql.database import NOTHING, Returned
from quire.sql.transient import is_transient


class SqliteDatabase:
    """One `sqlite3.Connection`, which stays the caller's."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @contextmanager
    def begin(self, what: str) -> Iterator[sqlite3.Connection]:
        """Return a transaction."""
        connection = self._connection
        check_idle(connection)
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("SAVEPOINT quire")
            yield connection
            _release(connection, what)
            connection.execute("COMMIT")  # with autocommit=True `commit()` does nothing
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def dialect(self, handle: sqlite3.Connection) -> str:
        """Return "sqlite"."""
        return "sqlite"

    def execute(
        self, handle: sqlite3.Connection, statement: str, parameters: Mapping[str, Any] = NOTHING
    ) -> Returned:
        """Run a statement in a transaction."""
        cursor = handle.execute(statement, parameters)
        cursor.row_factory = None  # whatever rows the caller's connection makes
        return Returned(cursor.fetchall(), cursor.rowcount)

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error of the database."""
        return isinstance(error, sqlite3.Error) and is_transient(error)

    def close(self) -> None:
        """Do nothing: the connection is the caller's."""


def check_idle(connection: sqlite3.Connection) -> None:
    """Raise `InvalidRequestError` while a transaction of the caller is open."""
    if connection.in_transaction:
        raise InvalidRequestError(
            "the sqlite3 connection has an open transaction: commit it first, and connect without "
            "autocommit=False, which keeps one open all the time"
        )


def _release(connection: sqlite3.Connection, what: str) -> None:
    try:
        connection.execute("RELEASE quire")
    except sqlite3.OperationalError as error:
        if is_transient(error):
            raise
        raise TransactionEndedError(what) from None

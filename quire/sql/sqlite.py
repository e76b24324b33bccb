"""A database in a SQLite file, through Python's own sqlite3, as a `Target`.

The transaction begins with `BEGIN IMMEDIATE`, so that two consumers wait for each other instead of
failing when they write. A savepoint around the effects shows whether they ended the transaction:
`executescript` commits without a word.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from quire.errors import InvalidRequestError, PositionMovedError, TransactionEndedError
from quire.sql.places import Move, Place, PlaceStatements
from quire.sql.transient import is_transient

DIALECT = "sqlite"


class SqliteTarget:
    """A consumer's table and effects over one `sqlite3.Connection`, which stays the caller's."""

    def __init__(self, connection: sqlite3.Connection, statements: PlaceStatements) -> None:
        self._connection = connection
        self._statements = statements

    def prepare(self) -> None:
        """Create the table of places if it is missing."""
        check_idle(self._connection)
        for statement in self._statements.create(DIALECT):
            self._connection.execute(statement)
        self._connection.commit()

    def load(self, consumer: str, log: str) -> Place | None:
        """Return a consumer's place, None before its first move."""
        query = self._statements.load
        found = self._connection.execute(query, {"consumer": consumer, "log": log})
        found.row_factory = None  # whatever rows the caller's connection makes
        return self._statements.place_of(found.fetchone())

    @contextmanager
    def transaction(self, move: Move) -> Iterator[sqlite3.Connection]:
        """Return a transaction that has made a move."""
        with transaction(self._connection, f"apply of consumer {move.consumer!r}") as connection:
            statement = self._statements.move(DIALECT, move)
            if connection.execute(statement, move.parameters()).rowcount != 1:
                found = self.load(move.consumer, move.log)
                raise PositionMovedError(move.consumer, move.log, str(move.expected), str(found))
            yield connection

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error of the database."""
        return isinstance(error, sqlite3.Error) and is_transient(error)

    def close(self) -> None:
        """Do nothing: the connection is the caller's."""


@contextmanager
def transaction(connection: sqlite3.Connection, what: str) -> Iterator[sqlite3.Connection]:
    """Run a block as one transaction. Raises `TransactionEndedError` if the block ended it."""
    check_idle(connection)
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("SAVEPOINT quire")
        yield connection
        try:
            connection.execute("RELEASE quire")
        except sqlite3.OperationalError as error:
            if is_transient(error):
                raise
            raise TransactionEndedError(what) from None
        connection.commit()
    except BaseException:
        if connection.in_transaction:
            connection.rollback()
        raise


def check_idle(connection: sqlite3.Connection) -> None:
    """Raise `InvalidRequestError` while a transaction of the caller is open."""
    if connection.in_transaction:
        raise InvalidRequestError(
            "the sqlite3 connection has an open transaction: commit it first, and connect without "
            "autocommit=False, which keeps one open all the time"
        )

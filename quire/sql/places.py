"""Where a consumer is in a log: the row beside the effects, and the statements about it.

A transaction of a consumer begins with a *move*: the row goes from the place that the consumer
expects to the place after its records. A row that is elsewhere is a fence: the process is an old
one, and its transaction ends there. The move comes first, so that the effects are applied to
exactly the state that the records before left, and the database locks the row until the end.

Pure: no database is known here but by the name of its dialect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from quire.errors import ConfigurationError, CorruptRecordError, UnsupportedError
from quire.log.records.position import Position, stored_position

DIALECTS: Final = ("postgresql", "sqlite")

TABLE: Final = "quire_positions"

HOLD_SECONDS: Final = 60.0
"""PostgreSQL ends a transaction of ours that is idle so long: a consumer that was paused in the
middle of one keeps its successor no longer than that.
"""

_NAME: Final = re.compile(r"([a-z_][a-z0-9_]*\.)?[a-z_][a-z0-9_]*")
_PARAMETER: Final = re.compile(r"(?<!:):([a-z_]+)")


def check_table(name: str) -> str:
    """Return a table's name. Raises `ConfigurationError` if it would need quotes: SQLAlchemy and
    Django quote a name with capitals, and PostgreSQL has another table without the quotes.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not a table's name: give lower-case letters, digits and _, after a "
            "schema and a dot if it needs one"
        )
    return name


def check_dialect(name: str) -> str:
    """Return the name of a dialect. Raises `UnsupportedError` for one without statements here."""
    if name not in DIALECTS:
        raise UnsupportedError(
            f"the database {name!r}", f"quire.sql, which knows {' and '.join(DIALECTS)}"
        )
    return name


def pyformat(statement: str) -> str:
    """Return a statement with parameters as psycopg writes them."""
    return _PARAMETER.sub(r"%(\1)s", statement)


@dataclass(frozen=True, slots=True)
class Place:
    """The next record of a consumer: the log's id, the position and the offset."""

    log_id: str
    position: Position
    offset: int

    def __str__(self) -> str:
        return f"offset {self.offset}"


@dataclass(frozen=True, slots=True)
class Move:
    """A step of a consumer from one place to another; from None for its first one."""

    consumer: str
    log: str
    expected: Place | None
    next: Place

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the statement that makes this move.

        Returns:
            Values by name.
        """
        expected = self.expected or self.next
        return {
            "consumer": self.consumer,
            "log": self.log,
            "log_id": self.next.log_id,
            "position": str(self.next.position),
            "next_offset": self.next.offset,
            "expected": str(expected.position),
            "expected_id": expected.log_id,
        }


class PlaceStatements:
    """The statements about a table of places, with parameters as `:name`."""

    def __init__(self, table: str = TABLE) -> None:
        """Raises `ConfigurationError` for an invalid name."""
        self.table = check_table(table)

    def exists(self, dialect: str) -> str:
        """Return a query for the table. If it is missing, a row of null or no row comes."""
        if dialect == "postgresql":
            return f"SELECT to_regclass('{self.table}')"
        return f"SELECT name FROM sqlite_master WHERE type = 'table' AND name = '{self.table}'"

    def create(self, dialect: str) -> tuple[str, ...]:
        """Return what makes the table, unless another process is quicker."""
        numbers = "BIGINT" if dialect == "postgresql" else "INTEGER"
        table = (
            f"CREATE TABLE IF NOT EXISTS {self.table} (consumer TEXT NOT NULL, log TEXT NOT NULL, "
            f"log_id TEXT NOT NULL, position TEXT NOT NULL, next_offset {numbers} NOT NULL, "
            "moved_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (consumer, log))"
        )
        return (create_lock(self.table), table) if dialect == "postgresql" else (table,)

    @property
    def load(self) -> str:
        """The query for a consumer's row."""
        return (
            f"SELECT log_id, position, next_offset FROM {self.table} "
            "WHERE consumer = :consumer AND log = :log"
        )

    def move(self, dialect: str, move: Move) -> str:
        """Return the statement that changes one row if the move is possible, and no row else."""
        holds = f" RETURNING {hold()}" if dialect == "postgresql" else ""
        if move.expected is None:
            return (
                f"INSERT INTO {self.table} (consumer, log, log_id, position, next_offset) "
                "VALUES (:consumer, :log, :log_id, :position, :next_offset) "
                f"ON CONFLICT (consumer, log) DO NOTHING{holds}"
            )
        return (
            f"UPDATE {self.table} SET log_id = :log_id, position = :position, "
            "next_offset = :next_offset, moved_at = CURRENT_TIMESTAMP "
            "WHERE consumer = :consumer AND log = :log AND log_id = :expected_id "
            f"AND position = :expected{holds}"
        )

    def place_of(self, row: Any) -> Place | None:
        """Return the place in a row. Raises `CorruptRecordError` for an invalid row."""
        if row is None:
            return None
        log_id, position, offset = row
        if not isinstance(offset, int):
            raise CorruptRecordError(self.table, f"next_offset {offset!r} is not a number")
        return Place(log_id, stored_position(self.table, position), offset)


def create_lock(table: str) -> str:
    """Return what lets one process of PostgreSQL at a time create a table: `IF NOT EXISTS` alone
    fails when two look at once.
    """
    return f"SELECT pg_advisory_xact_lock(hashtext('quire.sql create {table}'))"


def hold() -> str:
    """Return the expression that bounds how long this transaction of PostgreSQL may idle."""
    seconds = f"{HOLD_SECONDS:.0f}s"
    return f"set_config('idle_in_transaction_session_timeout', '{seconds}', true)"


def durably() -> str:
    """Return the expression that has this transaction of PostgreSQL committed on the disk."""
    return (
        "CASE WHEN current_setting('synchronous_commit') = 'off' "
        "THEN set_config('synchronous_commit', 'on', true) END"
    )

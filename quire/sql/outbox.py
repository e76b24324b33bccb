"""An outbox: rows of a table that become records of a log. The statements and values. Pure.

An application inserts a row in the transaction that changes its tables. A relay appends the rows to
a log in the order of their `sequence`, and deletes or marks them.

The sequence is drawn by a trigger. PostgreSQL draws it when the transaction commits, under a lock
that is held until the commit is visible: the order of sequences is the order of commits, and no
row appears later with a lower number. SQLite has one writer at a time, so its ids do. See
docs/decisions/0045-outbox.md.

The relay notes in the database which rows it is about to append, before it appends them as one
entry under the number of the last one. After any crash it appends the same rows under the same
number, and the log keeps them once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from quire.errors import OutboxRowError, QuireError
from quire.log.records.attributes import NewRecord
from quire.sql.places import check_table, create_lock, durably, hold

TABLE: Final = "quire_outbox"
RELAYS: Final = "quire_relays"

BYTES_MAX: Final = 512 * 1024
"""Payload bytes of one append, which is one entry. A larger row is appended alone."""

ROW_BYTES: Final = 64
"""The cost of a row besides its payload, so that empty rows are bounded as well."""

TRIMMED: Final = -1
"""The `log_offset` of a row whose record was trimmed before its offset was noted."""

_LOCK_CLASS: Final = 0x71756972 << 32
"""The upper half of the key of the lock in PostgreSQL ("quir"); the lower half is the table's."""

SEQUENCE_MAX: Final = 2**63 - 1

UNSENT: Final = "log_offset IS NULL"
"""The condition of the index of unsent rows."""

_UNSENT: Final = (
    "WHERE log = :log AND sequence > :after AND sequence <= :upto AND log_offset IS NULL "
    "ORDER BY sequence LIMIT :count"
)


def index_of(table: str) -> str:
    """Return the name of a table's index of unsent rows; PostgreSQL takes 63 letters of a name."""
    return f"{table.rpartition('.')[2][:56]}_unsent"


class Row(NamedTuple):
    """A row of an outbox."""

    sequence: int
    payload: bytes
    key: bytes | None
    headers: str | None
    event_time_ms: int | None

    def record(self) -> NewRecord:
        """Return the record. Raises `OutboxRowError` for a row that cannot be a record."""
        try:
            headers = {} if self.headers is None else json.loads(self.headers)
            if not isinstance(headers, dict):
                raise ValueError("headers are not a JSON object")
            pairs = {name: _header(value) for name, value in headers.items()}
            key = None if self.key is None else _bytes("key", self.key)
            payload = _bytes("payload", self.payload)
            return NewRecord(payload, key=key, headers=pairs, event_time=self.event_time_ms)
        except (ValueError, TypeError, RecursionError, QuireError) as error:
            raise OutboxRowError(self.sequence, str(error)) from error

    @property
    def cost(self) -> int:
        """The bytes that count for `BYTES_MAX`."""
        return ROW_BYTES + sum(map(_size, (self.payload, self.key, self.headers)))


def _bytes(column: str, value: object) -> bytes:
    """Return the bytes of a cell: SQLite keeps values of any type in a column."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"column {column} has {type(value).__name__}, not bytes")
    return bytes(value)


def _size(value: object) -> int:
    """Return the length of a cell; 0 without one."""
    return len(value) if isinstance(value, Sized) else 0


def _header(value: object) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"header value {value!r} is not text: write it as a JSON string")
    return value.encode()


def last_fitting(sizes: Sequence[Sequence[int]]) -> int | None:
    """Return the last sequence of the next append, by the sizes of rows; None without rows."""
    total, last = 0, None
    for sequence, size in sizes:
        total += size + ROW_BYTES
        if total > BYTES_MAX and last is not None:
            break
        last = sequence
    return last


def first_of(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows of the next append: as many as fit, and one at least.

    They end before an invalid row. Raises `OutboxRowError` if that is the first one.
    """
    total = 0
    for count, row in enumerate(rows):
        total += row.cost
        if total > BYTES_MAX and count:
            return rows[:count]
        try:
            row.record()
        except OutboxRowError:
            if not count:
                raise
            return rows[:count]
    return rows


@dataclass(frozen=True, slots=True)
class Sent:
    """The knowledge of a relay: rows up to `sent` are in the log, rows up to `sending` may be.

    `producer` is the relay's name in the log. It has random letters, so that an outbox that was
    created anew is another producer.
    """

    producer: str
    log_id: str
    sent: int
    sending: int

    @property
    def is_pending(self) -> bool:
        """Whether an append was begun, and its end is unknown here."""
        return self.sending > self.sent

    def __str__(self) -> str:
        return f"sequence {self.sent} to {self.sending}"


class OutboxStatements:
    """The statements about an outbox and its relays, with parameters as `:name`."""

    def __init__(self, table: str = TABLE) -> None:
        """Raises `ConfigurationError` for an invalid name."""
        self.table = check_table(table)
        self._name = table.rpartition(".")[2]

    def is_ready(self, dialect: str) -> str:
        """Return a query that has a row if table, trigger and relays are there."""
        if dialect == "postgresql":
            return (
                "SELECT 1 FROM pg_trigger WHERE tgname = 'quire_outbox_order' "
                f"AND tgrelid = to_regclass('{self.table}') "
                f"AND to_regclass('{RELAYS}') IS NOT NULL"
            )
        return (
            f"SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name = '{self._name}_order' "
            f"AND EXISTS (SELECT 1 FROM sqlite_master WHERE name = '{RELAYS}')"
        )

    def create(self, dialect: str) -> tuple[str, ...]:
        """Return what makes the table, its index, the trigger and the relays' table.

        Rows that are there before the trigger get their sequences in order of their ids: the
        trigger waits until no transaction is writing the table.
        """
        return self._postgresql() if dialect == "postgresql" else self._sqlite()

    def _columns(self, key: str, binary: str, number: str) -> str:
        return (
            f"CREATE TABLE IF NOT EXISTS {self.table} (id {key}, log TEXT NOT NULL, "
            f"payload {binary} NOT NULL, key {binary}, headers TEXT, event_time_ms {number}, "
            f"sequence {number} UNIQUE, log_offset {number})"
        )

    def _relays(self, number: str) -> str:
        return (
            f"CREATE TABLE IF NOT EXISTS {RELAYS} (outbox TEXT NOT NULL, log TEXT NOT NULL, "
            f"producer TEXT NOT NULL, log_id TEXT NOT NULL, sent {number} NOT NULL, "
            f"sending {number} NOT NULL, PRIMARY KEY (outbox, log))"
        )

    @property
    def _index(self) -> str:
        """The statement that makes the index of unsent rows. `strays` needs it to be quick."""
        return (
            f"CREATE INDEX IF NOT EXISTS {index_of(self.table)} ON {self.table} (log, sequence) "
            f"WHERE {UNSENT}"
        )

    def _postgresql(self) -> tuple[str, ...]:
        identity = "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
        draw = f"nextval(pg_get_serial_sequence('{self.table}', 'id'))"
        return (
            create_lock(self.table),
            self._columns(identity, "BYTEA", "BIGINT"),
            self._index,
            self._relays("BIGINT"),
            "CREATE OR REPLACE FUNCTION quire_outbox_order() RETURNS trigger LANGUAGE plpgsql AS "
            "$order$ BEGIN "
            f"PERFORM pg_advisory_xact_lock({_LOCK_CLASS} + TG_RELID::bigint); "
            "EXECUTE format('UPDATE %s SET sequence = nextval(pg_get_serial_sequence(%L, ''id'')) "
            "WHERE id = $1', TG_RELID::regclass, TG_RELID::regclass) USING NEW.id; "
            "RETURN NULL; END $order$",
            f"DROP TRIGGER IF EXISTS quire_outbox_order ON {self.table}",
            f"CREATE CONSTRAINT TRIGGER quire_outbox_order AFTER INSERT ON {self.table} "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION quire_outbox_order()",
            f"UPDATE {self.table} o SET sequence = drawn.sequence FROM (SELECT id, {draw} "
            f"AS sequence FROM (SELECT id FROM {self.table} WHERE sequence IS NULL ORDER BY id) "
            "AS ordered) AS drawn WHERE drawn.id = o.id",
        )

    def _sqlite(self) -> tuple[str, ...]:
        return (
            self._columns("INTEGER PRIMARY KEY AUTOINCREMENT", "BLOB", "INTEGER"),
            self._index,
            self._relays("INTEGER"),
            f"CREATE TRIGGER IF NOT EXISTS {self._name}_order AFTER INSERT ON {self.table} "
            f"BEGIN UPDATE {self.table} SET sequence = NEW.id WHERE id = NEW.id; END",
            f"UPDATE {self.table} SET sequence = id WHERE sequence IS NULL",
        )

    load = (
        f"SELECT producer, log_id, sent, sending FROM {RELAYS} "
        "WHERE outbox = :outbox AND log = :log"
    )

    begin = (
        f"INSERT INTO {RELAYS} (outbox, log, producer, log_id, sent, sending) "
        "VALUES (:outbox, :log, :producer, :log_id, :sent, :sending) ON CONFLICT DO NOTHING"
    )

    @property
    def sizes(self) -> str:
        """The query for sequences and sizes of rows after one sequence: a thousand large payloads
        would not fit in memory.
        """
        return (
            "SELECT sequence, length(payload) + coalesce(length(key), 0) "
            f"+ coalesce(length(headers), 0) FROM {self.table} {_UNSENT}"
        )

    @property
    def rows(self) -> str:
        """The query for rows after one sequence and up to another."""
        return f"SELECT sequence, payload, key, headers, event_time_ms FROM {self.table} {_UNSENT}"

    @property
    def strays(self) -> str:
        """The query for a row that no relay would send: it has no sequence, or one that was sent
        before.

        Each half is a look into the index of unsent rows: a relay that marks rows keeps sent ones.
        A table without the index is read as a whole.
        """
        unsent = f"SELECT id, sequence FROM {self.table} WHERE log = :log AND log_offset IS NULL"
        return f"{unsent} AND sequence IS NULL UNION ALL {unsent} AND sequence <= :sent LIMIT 1"

    def step(self, dialect: str) -> str:
        """Return the statement that changes one row if the relay stands where it is expected.

        In PostgreSQL its commit is on the disk before rows go to the log, whatever the database is
        set to: a step that a crash takes back would send rows a second time under a new number.
        """
        holds = f" RETURNING {hold()}, {durably()}" if dialect == "postgresql" else ""
        return (
            f"UPDATE {RELAYS} SET sent = :next_sent, sending = :next_sending "
            "WHERE outbox = :outbox AND log = :log AND producer = :producer "
            f"AND sent = :sent AND sending = :sending{holds}"
        )

    @property
    def delete(self) -> str:
        """The statement that deletes rows that are in the log."""
        return (
            f"DELETE FROM {self.table} WHERE log = :log AND sequence > :after AND sequence <= :upto"
        )

    @property
    def mark(self) -> str:
        """The statement that notes the offset of a row that is in the log."""
        return f"UPDATE {self.table} SET log_offset = :log_offset WHERE sequence = :sequence"

    def keys(self, log: str, sent: Sent | None = None) -> Mapping[str, Any]:
        """Return the parameters that name a relay, and where it is expected."""
        keys: dict[str, Any] = {"outbox": self.table, "log": log}
        if sent is not None:
            keys |= {"producer": sent.producer, "sent": sent.sent, "sending": sent.sending}
        return keys

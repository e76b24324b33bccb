"""The tree in one SQLite file: synchronous, and confined to the one thread that opens it.

    records(path, parent, name, value, version, owner, next_sequence)   the root is the record "/"
    sessions(session, renewed_at, timeout)                              seconds
    counter(revision)                                                   changes ever made

Several processes of one machine share the file. Every change is one `BEGIN IMMEDIATE` transaction
on a write-ahead log that is synced before it returns. The version of a record is the number of the
change that made it, so no version ever comes back, not even across delete and create.

A session is alive while `renewed_at ≤ now < renewed_at + timeout` by the machine's monotonic clock.
That clock starts over with the machine, so a lease of an earlier boot reads as renewed in the
future, and is dead; if by coincidence as alive, it dies of its timeout. The next call of any
process removes dead sessions, and only a lease that is alive can be renewed.

A file that is removed or replaced would stay open here, and two halves of a cluster would each
have metadata of their own; the two files beside it hold the newest changes and the locks. So before
each call, and after each change, the paths are compared with the files that were opened; when one
is not the same every call reports damage.

This is the only module that imports sqlite3. It raises quire's errors.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from quire.aio.backoff import Backoff
from quire.aio.retry import retry_blocking
from quire.errors import (
    ConfigurationError,
    ConflictError,
    CorruptStorageError,
    InvalidRequestError,
    NodeExistsError,
    NoSuchNodeError,
    QuireError,
    SessionExpiredError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    VersionConflictError,
)
from quire.metastore.changes import Absent, Change, Check, Create, Put, check_changes, describe
from quire.metastore.layout import (
    SEQUENCE_DIGITS,
    ancestors,
    check_parent,
    check_path,
    check_value,
    name_of,
    parent_of,
)
from quire.metastore.sqlite_path import Mode, check_mode, no_store, places, sqlite_uri
from quire.metastore.sqlite_waits import Mark, Seen
from quire.metastore.store import Versioned
from quire.private_files import make_file

SessionId: TypeAlias = int

BUSY_SECONDS: Final = 5.0
BUSY_BACKOFF: Final = Backoff(first=0.01, last=0.01)
"""How long a call waits for another process's transaction, which normally takes one sync."""

CLOCK_SLACK_SECONDS: Final = 1.0
"""How far two processors' clocks may disagree before a lease counts as one of an earlier boot."""

_APPLICATION_ID: Final = int.from_bytes(b"quir", "big")
_FORMAT: Final = 1
_SCHEMA: Final = (
    """CREATE TABLE records(
        path TEXT PRIMARY KEY, parent TEXT, name TEXT NOT NULL, value BLOB NOT NULL,
        version INTEGER NOT NULL, owner INTEGER, next_sequence INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID""",
    "CREATE INDEX records_by_parent ON records(parent, name)",
    "CREATE INDEX records_by_owner ON records(owner) WHERE owner IS NOT NULL",
    "CREATE TABLE sessions(session INTEGER PRIMARY KEY, renewed_at REAL, timeout REAL)",
    "CREATE TABLE counter(revision INTEGER NOT NULL)",
    "INSERT INTO counter VALUES (0)",
    "INSERT INTO records(path, parent, name, value, version) VALUES ('/', NULL, '', x'', 0)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_FORMAT}",
)
_IS_ALIVE: Final = f"? - renewed_at < timeout AND ? - renewed_at > -{CLOCK_SLACK_SECONDS}"

_CORRUPT: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
_UNUSABLE: Final = frozenset(
    (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)
)
_BUSY: Final = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))


class SqliteFile:
    """An open file. Construct it in the thread that will make every call."""

    def __init__(self, path: str, clock: Callable[[], float], mode: Mode) -> None:
        self._path = path
        self._clock = clock
        self._mode = mode
        self._opened: list[tuple[int, int] | None] = []
        check_mode(path, mode)
        if mode is Mode.CREATE:
            make_file(path)  # SQLite gives its -wal and -shm the same mode
        with self._errors():
            uri = sqlite_uri(path, mode)
            self._db = sqlite3.connect(uri, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise
        self._opened = places(self._path)

    def close(self) -> None:
        self._db.close()

    def get(self, path: str) -> Versioned:
        with self._errors():
            self._reap()
            row = self._one("SELECT value, version FROM records WHERE path = ?", check_path(path))
        if row is None:
            raise NoSuchNodeError(path)
        return Versioned(*row)

    def children(self, path: str) -> list[str]:
        check_parent(path)
        with self._errors():
            self._reap()
            return self._children(path)

    def look(self, mark: Mark | None, seen: Sequence[Seen]) -> tuple[Mark, list[bool]]:
        """Return a mark that differs from an earlier one when anything was changed since, and which
        of some paths show something else than was seen; none of them when the mark is the same.
        """
        with self._errors():
            self._reap()
            row = self._one("PRAGMA data_version")
            assert row is not None
            now = Mark(int(row[0]), self._db.total_changes)
            if now == mark:
                return now, [False] * len(seen)
            return now, [self._differs(each) for each in seen]

    def _differs(self, seen: Seen) -> bool:
        if seen.names is not None:
            return self._children(seen.path) != seen.names
        row = self._one("SELECT version FROM records WHERE path = ?", seen.path)
        return (None if row is None else int(row[0])) != seen.version

    def _children(self, parent: str) -> list[str]:
        names = self._db.execute("SELECT name FROM records WHERE parent = ?", (parent,))
        return sorted(name for (name,) in names)

    def create(self, path: str, value: bytes, owner: SessionId | None = None) -> int:
        check_value(check_path(path), value)
        with self._change(path):
            return self._create(path, value, owner)

    def create_sequential(self, prefix: str, value: bytes, owner: SessionId) -> str:
        check_value(check_path(prefix + "0"), value)
        parent = parent_of(prefix)
        with self._change(prefix):
            row = self._one("SELECT next_sequence FROM records WHERE path = ?", parent)
            sequence = 0 if row is None else int(row[0])
            path = f"{prefix}{sequence:0{SEQUENCE_DIGITS}d}"
            self._create(path, value, owner)
            self._db.execute(
                "UPDATE records SET next_sequence = ? WHERE path = ?", (sequence + 1, parent)
            )
        return path

    def put(self, path: str, value: bytes, version: int) -> int:
        check_value(check_path(path), value)
        with self._change(path):
            return self._put(path, value, version)

    def delete(self, path: str, version: int | None) -> None:
        with self._change(check_path(path)):
            self._delete(path, version)

    def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        check_changes(changes)
        versions: dict[str, int] = {}
        with self._change(describe(changes)):
            for change in changes:
                if isinstance(change, Create):
                    versions[change.path] = self._create(change.path, change.value, None)
                elif isinstance(change, Put):
                    versions[change.path] = self._put(change.path, change.value, change.version)
                elif isinstance(change, Check):
                    self._check_version(change.path, change.version)
                elif isinstance(change, Absent):
                    self._check_absent(change.path)
                else:
                    self._delete(change.path, change.version)
        return versions

    def open_session(self, timeout: float) -> tuple[SessionId, float]:
        """Return a new session and its deadline."""
        with self._change("a new session"):
            session, now = self._next_revision(), self._clock()
            self._db.execute("INSERT INTO sessions VALUES (?, ?, ?)", (session, now, timeout))
        return session, now + timeout

    def renew(self, session: SessionId, timeout: float) -> float | None:
        """Return a session's new deadline, or None when it is over."""
        with self._change("a session"):
            now = self._clock()
            renewed = self._db.execute(
                f"UPDATE sessions SET renewed_at = ? WHERE session = ? AND {_IS_ALIVE}",
                (now, session, now, now),
            )
            return now + timeout if renewed.rowcount else None

    def end_session(self, session: SessionId) -> None:
        """Remove a session and its ephemeral records; harmless when they are gone."""
        with self._change("a session"):
            self._remove_session(session)

    def _prepare(self) -> None:
        application, tables = self._identity()
        if application != _APPLICATION_ID and (application or tables):
            raise ConfigurationError(
                f"{self._path} is an SQLite file of another application: choose another path"
            )
        if self._mode is Mode.EXISTING and not any((application, tables)):
            raise no_store(self._path)
        self._switch_to_write_ahead_log()
        self._db.execute("PRAGMA synchronous = FULL")
        with self._change(self._path):
            if not any(self._identity()):
                for statement in _SCHEMA:
                    self._db.execute(statement)
        row = self._one("PRAGMA user_version")
        if row != (_FORMAT,):
            raise ConfigurationError(
                f"{self._path} has format {row and row[0]}, this quire reads format {_FORMAT}"
            )

    def _switch_to_write_ahead_log(self) -> None:
        """Once in the life of the file; SQLite refuses at once when two try at the same time."""
        retry_blocking(
            lambda: self._db.execute("PRAGMA journal_mode = WAL"),
            on=sqlite3.Error,
            unless=lambda error: _code(error) not in _BUSY,
            backoff=BUSY_BACKOFF,
            timeout=BUSY_SECONDS,
        )

    def _identity(self) -> tuple[int, int]:
        # In this order: the creator of the file commits both at once, so tables imply their mark.
        tables = self._one("SELECT count(*) FROM sqlite_master")
        application = self._one("PRAGMA application_id")
        assert application is not None
        assert tables is not None
        return int(application[0]), int(tables[0])

    def _create(self, path: str, value: bytes, owner: SessionId | None) -> int:
        if owner is not None:
            self._check_owner(owner)
        self._check_absent(path)
        for parent in ancestors(path):
            row = self._one("SELECT owner FROM records WHERE path = ?", parent)
            if row is None:
                self._insert(parent, b"", None)
            elif row[0] is not None:
                raise InvalidRequestError(f"{parent} is ephemeral: it can have nothing below it")
        return self._insert(path, value, owner)

    def _insert(self, path: str, value: bytes, owner: SessionId | None) -> int:
        revision = self._next_revision()
        self._db.execute(
            "INSERT INTO records(path, parent, name, value, version, owner)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (path, parent_of(path), name_of(path), value, revision, owner),
        )
        return revision

    def _put(self, path: str, value: bytes, version: int) -> int:
        self._check_version(path, version)
        revision = self._next_revision()
        self._db.execute(
            "UPDATE records SET value = ?, version = ? WHERE path = ?", (value, revision, path)
        )
        return revision

    def _delete(self, path: str, version: int | None) -> None:
        self._check_version(path, version)
        if self._one("SELECT 1 FROM records WHERE parent = ? LIMIT 1", path):
            raise ConflictError(f"{path} has records below it")
        self._db.execute("DELETE FROM records WHERE path = ?", (path,))

    def _check_version(self, path: str, version: int | None) -> None:
        row = self._one("SELECT version FROM records WHERE path = ?", path)
        if row is None:
            raise NoSuchNodeError(path)
        if version is not None and row[0] != version:
            raise VersionConflictError(path, version)

    def _check_absent(self, path: str) -> None:
        if self._one("SELECT 1 FROM records WHERE path = ?", path):
            raise NodeExistsError(path)

    def _check_owner(self, session: SessionId) -> None:
        now = self._clock()
        alive = f"SELECT 1 FROM sessions WHERE session = ? AND {_IS_ALIVE}"
        if not self._one(alive, session, now, now):
            raise SessionExpiredError("it was not renewed in time")

    def _reap(self) -> None:
        """Remove what dead sessions left; writes only when there is something to remove."""
        now = self._clock()
        dead = f"SELECT session FROM sessions WHERE NOT ({_IS_ALIVE}) ORDER BY session"
        if self._one(dead, now, now) is None:
            return
        # A lock held elsewhere must neither fail nor delay a read: dead sessions can wait for the
        # next call. A process that was stopped while it held the lock soon has a dead session too.
        unavailable = suppress(StoreUnavailableError, StoreOutcomeUnknownError)
        with unavailable, self._not_waiting(), self._change("sessions"):
            for (session,) in self._db.execute(dead, (now, now)).fetchall():
                self._remove_session(session)

    @contextmanager
    def _not_waiting(self) -> Iterator[None]:
        """Within the block a lock that another process holds is an error at once."""
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            self._db.execute(f"PRAGMA busy_timeout = {round(BUSY_SECONDS * 1000)}")

    def _remove_session(self, session: SessionId) -> None:
        self._db.execute("DELETE FROM records WHERE owner = ?", (session,))
        self._db.execute("DELETE FROM sessions WHERE session = ?", (session,))

    def _next_revision(self) -> int:
        row = self._one("UPDATE counter SET revision = revision + 1 RETURNING revision")
        assert row is not None
        return int(row[0])

    def _one(self, statement: str, *values: object) -> tuple[Any, ...] | None:
        rows = self._db.execute(statement, values).fetchall()
        return rows[0] if rows else None

    @contextmanager
    def _change(self, what: str) -> Iterator[None]:
        """One transaction that writes: all of it or nothing."""
        with self._errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._roll_back()
                raise
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise StoreOutcomeUnknownError(what, f"commit to {self._path}: {error}") from error
        self._check_places()

    def _roll_back(self) -> None:
        """End a transaction, unless SQLite has already done so because of the error."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _check_places(self) -> None:
        if self._opened and places(self._path) != self._opened:
            raise CorruptStorageError(
                self._path,
                "it, its -wal or its -shm was removed or replaced while it was in use; stop every "
                "process of the cluster and put the right files back",
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        self._check_places()
        try:
            yield
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def _translate(self, error: sqlite3.Error) -> QuireError:
        code = _code(error)
        if code in _CORRUPT:
            return CorruptStorageError(self._path, f"{error}: restore it or choose another path")
        if code in _UNUSABLE:
            return ConfigurationError(
                f"metadata store {self._path} cannot be used: {error}; "
                f"its directory {Path(self._path).parent} must exist and be writable"
            )
        reason = f"locked by another process for {BUSY_SECONDS} s" if code in _BUSY else str(error)
        return StoreUnavailableError(f"sqlite://{self._path}", reason)


def _code(error: BaseException) -> int:
    """Return SQLite's primary result code."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF

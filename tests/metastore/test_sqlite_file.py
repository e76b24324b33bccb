"""What the file itself refuses, in the thread that owns it, and what it does not know."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quire.errors import (
    SessionExpiredError,
    StoreOutcomeUnknownError,
    VersionConflictError,
)
from quire.metastore.changes import Create, Delete, Put
from quire.metastore.sqlite_file import SqliteFile
from quire.metastore.sqlite_path import Mode


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "metadata.db")


@pytest.mark.parametrize("how", ["removed by another process", "overdue"])
def test_a_dead_session_creates_nothing(path: str, clock: Clock, how: str) -> None:
    """Its owner may believe in it for a moment yet. What it created would stay forever."""
    mine, other = SqliteFile(path, clock, Mode.CREATE), SqliteFile(path, clock, Mode.CREATE)
    session, deadline = mine.open_session(1.0)
    mine.create("/live/before", b"", session)
    if how == "overdue":
        clock.now = deadline
    else:
        other.end_session(session)
    with pytest.raises(SessionExpiredError):
        mine.create("/live/x", b"", session)
    with pytest.raises(SessionExpiredError):
        mine.create_sequential("/live/c-", b"", session)
    assert mine.renew(session, 1.0) is None
    assert other.children("/live") == []
    mine.close()
    other.close()


def test_a_version_is_never_that_of_another_record_of_the_path(path: str, clock: Clock) -> None:
    """A client that is slow must not replace what was deleted and made anew meanwhile."""
    file = SqliteFile(path, clock, Mode.CREATE)
    seen = [file.create("/a", b"first")]
    seen.append(file.put("/a", b"second", seen[-1]))
    for _ in range(3):
        file.delete("/a", seen[-1])
        version = file.create("/a", b"third")
        assert version > seen[-1]
        for old in [*seen, version + 1]:
            with pytest.raises(VersionConflictError):
                file.put("/a", b"x", old)
            with pytest.raises(VersionConflictError):
                file.delete("/a", old)
            with pytest.raises(VersionConflictError):
                file.commit([Put("/a", b"x", old)])
        seen.append(version)
    assert file.get("/a").value == b"third"
    file.close()


class Failing:
    """A connection whose commits fail, carried out or not."""

    def __init__(self, inner: sqlite3.Connection, *, is_carried_out: bool) -> None:
        self._inner = inner
        self._is_carried_out = is_carried_out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def execute(self, statement: str, *values: Any) -> Any:
        if statement != "COMMIT":
            return self._inner.execute(statement, *values)
        if self._is_carried_out:
            self._inner.execute(statement)
        raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_the_outcome_of_a_commit_that_failed_is_unknown(
    path: str, clock: Clock, *, is_carried_out: bool
) -> None:
    """A caller that took it for a refusal would give an id out twice, or delete what is listed."""
    file = SqliteFile(path, clock, Mode.CREATE)
    version = file.create("/a", b"first")
    whole = file._db
    changes: list[Callable[[], object]] = [
        lambda: file.put("/a", b"second", version),
        lambda: file.create("/b", b""),
        lambda: file.commit([Create("/c", b""), Delete("/d", None)]),
    ]
    file.create("/d", b"")
    for change in changes:
        file._db = Failing(whole, is_carried_out=is_carried_out)  # type: ignore[assignment]
        with pytest.raises(StoreOutcomeUnknownError):
            change()
        file._db = whole
        assert not whole.in_transaction
    assert file.get("/a").value == (b"second" if is_carried_out else b"first")
    assert file.children("/") == (["a", "b", "c"] if is_carried_out else ["a", "d"])
    file.close()

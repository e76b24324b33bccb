"""Blocking twins of a log's cursors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quire.errors import QuireError
from quire.log.maintenance.advancing import EVERY, SECONDS, Advancer
from quire.log.maintenance.cursor import Cursor
from quire.log.maintenance.cursor_record import CursorInfo
from quire.log.maintenance.cursors import LogCursors
from quire.log.records.position import BEGINNING, Position, Record
from quire.sync.logs import SyncLogReader
from quire.sync.portal import Portal
from quire.sync.twins import twin_of


@twin_of(Cursor, "_cursor")
class SyncCursor:
    """Blocking twin of `Cursor`."""

    def __init__(self, portal: Portal, cursor: Cursor) -> None:
        self._portal = portal
        self._cursor = cursor

    @property
    def name(self) -> str:
        """The cursor's name."""
        return self._cursor.name

    @property
    def log(self) -> str:
        """See `Cursor.log`."""
        return self._cursor.log

    @property
    def log_id(self) -> str:
        """See `Cursor.log_id`."""
        return self._cursor.log_id

    @property
    def position(self) -> Position:
        """See `Cursor.position`."""
        return self._cursor.position

    def refresh(self) -> Position:
        """See `Cursor.refresh`."""
        return self._portal.call(self._cursor.refresh())

    def advance(self, position: Position | int) -> Position:
        """See `Cursor.advance`."""
        return self._portal.call(self._cursor.advance(position))

    def advance_with(
        self, reader: SyncLogReader, *, every: int = EVERY, seconds: float = SECONDS
    ) -> Iterator[Record]:
        """See `Cursor.advance_with`."""
        portal = self._portal
        advancer = Advancer(self._cursor, every, seconds, portal.time)
        try:
            while (record := reader.take(advancer.during)) is not None:
                yield record
                advancer.note(record)
                if advancer.is_due:
                    portal.call(advancer.save())
        except QuireError:
            portal.call(advancer.save())
            raise
        portal.call(advancer.save())

    def offset(self) -> int:
        """See `Cursor.offset`."""
        return self._portal.call(self._cursor.offset())

    def lag(self) -> int:
        """See `Cursor.lag`."""
        return self._portal.call(self._cursor.lag())


@twin_of(LogCursors, "_cursors")
class SyncLogCursors:
    """Blocking twin of `LogCursors`."""

    def __init__(self, portal: Portal, cursors: LogCursors) -> None:
        self._portal = portal
        self._cursors = cursors

    @property
    def log(self) -> str:
        """The log's name."""
        return self._cursors.log

    def open(self, name: str, start: Position | int = BEGINNING) -> SyncCursor:
        """See `LogCursors.open`."""
        return SyncCursor(self._portal, self._portal.call(self._cursors.open(name, start)))

    def reset(self, name: str, start: Position | int) -> SyncCursor:
        """See `LogCursors.reset`."""
        return SyncCursor(self._portal, self._portal.call(self._cursors.reset(name, start)))

    def find(self, name: str) -> SyncCursor:
        """See `LogCursors.find`."""
        return SyncCursor(self._portal, self._portal.call(self._cursors.find(name)))

    def list(self) -> Sequence[CursorInfo]:
        """See `LogCursors.list`."""
        return self._portal.call(self._cursors.list())

    def delete(self, name: str) -> None:
        """See `LogCursors.delete`."""
        self._portal.call(self._cursors.delete(name))

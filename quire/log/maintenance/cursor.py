"""One named cursor of a log. `cursors.py` explains cursors."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from quire.aio.home import at_home, home_here
from quire.log.maintenance.advancing import EVERY, SECONDS, advance_with
from quire.log.maintenance.cursor_record import CursorRecord
from quire.log.reading.reader import LogReader
from quire.log.records.position import Position, Record


class OfLog(Protocol):
    """The part of `LogCursors` that a cursor needs."""

    @property
    def log(self) -> str:
        """The log's name."""
        ...

    async def _state_of(self, name: str, log_id: str) -> CursorRecord: ...

    async def _advance(self, name: str, log_id: str, where: Position | int) -> CursorRecord: ...

    async def _offset_at(self, state: CursorRecord) -> int: ...

    async def _lag_of(self, state: CursorRecord) -> int: ...


@at_home
class Cursor:
    """One named cursor. Made by `LogCursors.open`; holds nothing that has to be closed."""

    def __init__(self, cursors: OfLog, state: CursorRecord) -> None:
        self._cursors = cursors
        self._state = state
        self._home = home_here()

    def __repr__(self) -> str:
        return f"<Cursor {self.name!r} of log {self.log!r} at {self.position}>"

    @property
    def name(self) -> str:
        """The cursor's name."""
        return self._state.name

    @property
    def log(self) -> str:
        """The log's name."""
        return self._cursors.log

    @property
    def log_id(self) -> str:
        """The identity of the log this cursor is in."""
        return self._state.log_id

    @property
    def position(self) -> Position:
        """Where to read next, as last seen; `refresh` looks again."""
        return self._state.position

    async def refresh(self) -> Position:
        """Look where the cursor is now.

        Returns:
            The position to read next.

        Raises:
            NoSuchCursorError: the cursor was deleted.
            LogReplacedError: another log has the name now.
            StoreUnavailableError: the metadata store does not answer.

        Cancellation: ends the call only: nothing is changed.
        """
        self._state = await self._cursors._state_of(self.name, self.log_id)
        return self.position

    async def advance(self, position: Position | int) -> Position:
        """Move the cursor forward: normally to `record.position.after`, or to an offset.

        Args:
            position: a position, an offset, or `LATEST`, the end at the time of this call.

        Returns:
            The cursor's position afterwards. It is further on if another consumer was faster.

        Raises:
            InvalidRequestError: the log has not reached the position.
            NoSuchLogError: the log does not exist.
            NoSuchCursorError: the cursor does not exist.
            LogReplacedError: another log has the name now.
            QuireError: the store's errors, and the errors of reading, because the bookies are asked
                for the end of the log.

        Cancellation: the cursor may have moved. It never moves back.

        Guarantees:
            The new position is durable when the call returns.
        """
        self._state = await self._cursors._advance(self.name, self.log_id, position)
        return self.position

    def advance_with(
        self, reader: LogReader, *, every: int = EVERY, seconds: float = SECONDS
    ) -> AsyncGenerator[Record, None]:
        """Yield a reader's records, and move the cursor past those that were processed.

            async with client.read_log("orders", AtCursor("billing"), follow=True) as reader:
                async for record in cursor.advance_with(reader):
                    process(record)

        A record is processed when the loop asks for the next one.

        Args:
            reader: a reader that starts at this cursor. It belongs to the loop.
            every: move the cursor after so many records.
            seconds: move it so many seconds after the first record that it has not passed, also
                while the reader waits for the next record.

        Yields:
            The records of the reader.

        Raises:
            InvalidRequestError: `every` or `seconds` is not positive.
            NoSuchCursorError, LogReplacedError: the cursor is gone.
            QuireError: the errors of the reader. The cursor is moved first.

        Cancellation: a cancelled loop, or one that is left early, does not move the cursor. The
            records since the last move are read again.

        Guarantees: every record is read at least once. The cursor moves at the end of the reader,
            too. If it cannot be moved now, a warning says so and the loop continues.
        """
        return advance_with(self, reader, every, seconds)

    async def offset(self) -> int:
        """Return the offset of the next record to process.

        Returns:
            The offset of the first remaining record at or after the cursor's position.

        Raises:
            NoSuchLogError, LogReplacedError: the log was deleted, or deleted and recreated.
            QuireError: the errors of reading.

        Cancellation: the call only reads, so nothing is left behind.
        """
        return await self._cursors._offset_at(self._state)

    async def lag(self) -> int:
        """Return the number of confirmed records at or after the cursor's present position.

        Trimmed records do not count.

        Returns:
            A number of records, 0 or more.

        Raises:
            NoSuchCursorError, LogReplacedError: as `refresh`.
            NoSuchLogError: the log does not exist.
            QuireError: the store's errors, and the errors of reading.

        Cancellation: ends the call only: nothing is changed.
        """
        await self.refresh()
        return await self._cursors._lag_of(self._state)

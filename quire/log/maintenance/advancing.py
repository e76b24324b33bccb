"""Advancing a cursor while a program reads: every so many records, or seconds, and at the end.

A record counts as processed when the program asks for the next one. The cursor moves past processed
records only, so a consumer that crashes reads the last ones again, and misses none.

A place that cannot be saved now is saved later: the consumer continues, and a warning says so. A
cursor that is gone ends the reading. `quire.sync` has a loop of its own around the same `Advancer`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from quire.errors import InvalidRequestError, OutcomeUnknownError, QuireError, RetryError
from quire.log.reading.reader import LogReader
from quire.log.records.position import Position, Record

EVERY: Final = 1000
SECONDS: Final = 5.0
"""Defaults: one small metadata write for so many records, or for so much time."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Advanced(Protocol):
    """The part of a cursor that is needed here."""

    @property
    def name(self) -> str: ...

    @property
    def log(self) -> str: ...

    async def advance(self, position: Position | int) -> Position: ...


class Advancer:
    """Decides when a cursor moves past the records that were processed, and moves it."""

    def __init__(
        self, cursor: Advanced, every: int, seconds: float, clock: Callable[[], float]
    ) -> None:
        """`clock` is the event loop's. Raises `InvalidRequestError` for limits that are not
        positive.
        """
        if every < 1 or not seconds > 0:
            raise InvalidRequestError(
                f"a cursor advances every {every} records or {seconds:g} s: both must be positive"
            )
        self._cursor = cursor
        self._every = every
        self._seconds = seconds
        self._clock = clock
        self._place: Position | None = None
        """After the last processed record, while that is not saved."""
        self._count = 0
        self._due_at = 0.0

    def note(self, record: Record) -> None:
        """Count a record as processed."""
        if self._place is None:
            self._due_at = self._clock() + self._seconds
        self._place = record.position.after
        self._count += 1

    @property
    def is_due(self) -> bool:
        """Whether enough records were processed, or enough time has passed."""
        if self._place is None:
            return False
        return self._count >= self._every or self._clock() >= self._due_at

    async def during(self, step: Coroutine[Any, Any, T]) -> T:
        """Return the result of a step, and move the cursor if it is due meanwhile."""
        if self._place is None:
            return await step
        task = asyncio.ensure_future(step)
        try:
            while self._place is not None and not task.done():
                await asyncio.wait([task], timeout=max(0.0, self._due_at - self._clock()))
                if not task.done():
                    await self.save()
            return await task
        except BaseException:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise

    async def save(self) -> None:
        """Move the cursor past the processed records. Raises what waiting cannot mend."""
        place, count = self._place, self._count
        if place is None:
            return
        self._count, self._due_at = 0, self._clock() + self._seconds
        try:
            await self._cursor.advance(place)
        except (RetryError, OutcomeUnknownError) as error:
            _log.warning(
                "cursor %r of log %r does not move to %s now (%d more records were read): %s",
                *(self._cursor.name, self._cursor.log, place, count, error),
            )
            return
        if self._place == place:
            self._place = None


async def advance_with(
    cursor: Advanced, reader: LogReader, every: int, seconds: float
) -> AsyncGenerator[Record, None]:
    """Yield a reader's records and advance the cursor. `Cursor.advance_with` has the terms."""
    advancer = Advancer(cursor, every, seconds, asyncio.get_running_loop().time)
    try:
        while (record := await advancer.during(_next(reader))) is not None:
            yield record
            advancer.note(record)
            if advancer.is_due:
                await advancer.save()
    except QuireError:
        await advancer.save()
        raise
    await advancer.save()


async def _next(reader: LogReader) -> Record | None:
    return await anext(reader, None)

"""The records of one transaction after the other: `Feed` collects them from a reader of the log.

A transaction gets as many records as there are, up to a number and to `BYTES_MAX`, and waits for
more no longer than some seconds after its first one. No transaction of the database is open in the
meantime.

Invariants:
  - A cancelled `next` loses nothing: the records that were collected come with the next call.
  - A feed ends with the leadership that it was made under: `LeadershipLostError`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

from quire.aio.tasks import Tasks, stop
from quire.election.leadership import Leadership
from quire.errors import ConfigurationError
from quire.log.reading.reader import LogReader
from quire.log.records.position import Record

RECORDS: Final = 1000
SECONDS: Final = 0.1
"""Defaults: up to so many records share the cost of a commit, and none waits for longer."""

BYTES_MAX: Final = 16 * 1024 * 1024
"""Payload bytes after which a transaction takes no more records: a thousand large ones would not
fit in memory.
"""


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """When a transaction takes no more records."""

    records: int = RECORDS
    seconds: float = SECONDS

    def __post_init__(self) -> None:
        if self.records < 1:
            raise ConfigurationError(f"a transaction has 1 record or more, not {self.records}")
        if not self.seconds >= 0:
            raise ConfigurationError(f"a transaction waits 0 s or longer, not {self.seconds}")


class Feed:
    """Collects records from a reader, for as long as a leadership lasts."""

    def __init__(
        self, reader: LogReader, leadership: Leadership, limits: TransactionLimits
    ) -> None:
        self._leadership = leadership
        self._limits = limits
        self._source = reader.read_batches()
        self._tasks = Tasks()
        self._fetching: asyncio.Future[None] | None = None
        self._lost = self._tasks.keep(leadership.wait_lost())
        self._arrived: deque[Record] = deque()
        self._taken: list[Record] = []
        self._bytes = 0
        self._due_at = 0.0
        self._has_ended = False

    async def next(self) -> list[Record]:
        """Return the records of the next transaction; none at the end of the log.

        Raises `LeadershipLostError`, and the errors of reading.
        """
        while not self._is_full:
            if self._arrived:
                self._take(self._arrived.popleft())
            elif self._has_ended or not await self._more():
                break
        self._leadership.check()
        taken, self._taken, self._bytes = self._taken, [], 0
        return taken

    @property
    def _is_full(self) -> bool:
        return len(self._taken) >= self._limits.records or self._bytes >= BYTES_MAX

    def _take(self, record: Record) -> None:
        if not self._taken:
            self._due_at = asyncio.get_running_loop().time() + self._limits.seconds
        self._taken.append(record)
        self._bytes += len(record.payload)

    async def _more(self) -> bool:
        """Wait for records; False if the collected ones are due before any arrive."""
        left = None
        if self._taken:
            left = max(0.0, self._due_at - asyncio.get_running_loop().time())
        if self._fetching is None:
            self._fetching = self._tasks.keep(self._fetch())
        waits = (self._fetching, self._lost)
        await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        self._leadership.check()
        if not self._fetching.done():
            return False
        fetched, self._fetching = self._fetching, None
        fetched.result()
        return True

    async def _fetch(self) -> None:
        batch = await anext(self._source, None)
        if batch is None:
            self._has_ended = True
        else:
            self._arrived.extend(batch.records())

    async def close(self) -> None:
        """End the work of this feed; the reader stays open."""
        await self._tasks.stop()
        if self._fetching is not None:
            await stop(self._fetching)

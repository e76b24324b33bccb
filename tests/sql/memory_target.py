"""A database in memory, for tests on virtual time: rows, and one transaction at a time.

It is a subject of the contract suite, as the adapters are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from quire.errors import PositionMovedError
from quire.sql import Move, Place


class RestartingError(Exception):
    """The database is away for a moment."""


class MemoryDatabase:
    """What is committed: places and rows."""

    def __init__(self) -> None:
        self.places: dict[tuple[str, str], Place] = {}
        self.rows: list[bytes] = []
        self.lock = asyncio.Lock()
        self.commits = 0


class MemoryTarget:
    """One connection to the database. `fail_commits` lets so many commits fail, after them or
    before them.
    """

    def __init__(self, database: MemoryDatabase) -> None:
        self.database = database
        self.fail_before = 0
        self.fail_after = 0

    async def prepare(self) -> None:
        return None

    async def load(self, consumer: str, log: str) -> Place | None:
        return self.database.places.get((consumer, log))

    @asynccontextmanager
    async def transaction(self, move: Move) -> AsyncIterator[list[bytes]]:
        database, key = self.database, (move.consumer, move.log)
        async with database.lock:
            found = database.places.get(key)
            if found != move.expected:
                raise PositionMovedError(*key, str(move.expected), str(found))
            rows: list[bytes] = []
            yield rows
            if self.fail_before:
                self.fail_before -= 1
                raise RestartingError
            database.rows += rows
            database.places[key] = move.next
            database.commits += 1
            if self.fail_after:
                self.fail_after -= 1
                raise RestartingError

    def is_transient(self, error: BaseException) -> bool:
        return isinstance(error, RestartingError)

    async def close(self) -> None:
        return None

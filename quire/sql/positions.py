"""`Target` and `AsyncTarget` over any database that has an adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from quire.errors import PositionMovedError
from quire.sql.database import AsyncDatabase, Database
from quire.sql.places import Move, Place, PlaceStatements


class PositionTarget:
    """A table of places, with calls that block."""

    def __init__(self, database: Database, statements: PlaceStatements) -> None:
        self._database = database
        self._statements = statements

    def prepare(self) -> None:
        """Create the table of places if it is missing."""
        execute = self._database.execute
        with self._database.begin("quire") as handle:
            dialect = self._database.dialect(handle)
            found = execute(handle, self._statements.exists(dialect)).first
            if found is None or found[0] is None:
                for statement in self._statements.create(dialect):
                    execute(handle, statement)

    def load(self, consumer: str, log: str) -> Place | None:
        """Return a consumer's place, None before its first move."""
        with self._database.begin("quire") as handle:
            return self._load(handle, consumer, log)

    def _load(self, handle: Any, consumer: str, log: str) -> Place | None:
        keys = {"consumer": consumer, "log": log}
        found = self._database.execute(handle, self._statements.load, keys)
        return self._statements.place_of(found.first)

    @contextmanager
    def transaction(self, move: Move) -> Iterator[Any]:
        """Return a transaction that has made a move."""
        with self._database.begin(f"apply of consumer {move.consumer!r}") as handle:
            statement = self._statements.move(self._database.dialect(handle), move)
            if self._database.execute(handle, statement, move.parameters()).changed != 1:
                raise moved(move, self._load(handle, move.consumer, move.log))
            yield handle

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error of the database."""
        return self._database.is_transient(error)

    def close(self) -> None:
        """Close the connections that the adapter made."""
        self._database.close()


class AsyncPositionTarget:
    """A table of places with coroutines."""

    def __init__(self, database: AsyncDatabase, statements: PlaceStatements) -> None:
        self._database = database
        self._statements = statements

    async def prepare(self) -> None:
        """Create the table of places if it is missing."""
        execute = self._database.execute
        async with self._database.begin("quire") as handle:
            dialect = self._database.dialect(handle)
            found = (await execute(handle, self._statements.exists(dialect))).first
            if found is None or found[0] is None:
                for statement in self._statements.create(dialect):
                    await execute(handle, statement)

    async def load(self, consumer: str, log: str) -> Place | None:
        """Return a consumer's place, None before its first move."""
        async with self._database.begin("quire") as handle:
            return await self._load(handle, consumer, log)

    async def _load(self, handle: Any, consumer: str, log: str) -> Place | None:
        keys = {"consumer": consumer, "log": log}
        found = await self._database.execute(handle, self._statements.load, keys)
        return self._statements.place_of(found.first)

    @asynccontextmanager
    async def transaction(self, move: Move) -> AsyncIterator[Any]:
        """Return a transaction that has made a move."""
        async with self._database.begin(f"apply of consumer {move.consumer!r}") as handle:
            statement = self._statements.move(self._database.dialect(handle), move)
            if (await self._database.execute(handle, statement, move.parameters())).changed != 1:
                raise moved(move, await self._load(handle, move.consumer, move.log))
            yield handle

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another attempt may succeed after this error of the database."""
        return self._database.is_transient(error)

    async def close(self) -> None:
        """Close the connections that the adapter made."""
        await self._database.close()


def moved(move: Move, found: Place | None) -> PositionMovedError:
    """Return the error of a move that was not possible."""
    return PositionMovedError(move.consumer, move.log, str(move.expected), str(found))
